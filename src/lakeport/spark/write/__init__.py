"""Writes Spark rows to a table, in batches and streams.

May import `options`, `tables` and modules directly in `spark`.
"""
