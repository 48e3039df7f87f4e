"""`lakeport sql`: queries with DuckDB, a prompt, and filter pushdown.

May import modules directly in `cli`.
"""
