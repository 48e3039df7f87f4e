"""Rows from Spark into a table, in batches and streams.

May import `options`, `tables` and what is directly in `spark`.
"""
