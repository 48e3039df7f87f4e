"""Writes Spark rows to a table, in batches and streams.

May import `options`, `tables` and what is directly in `spark`.
"""
