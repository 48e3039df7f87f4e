"""`lakeport sql`: tables as DuckDB's, a prompt, filters pushed down.

May import what is directly in `cli`.
"""
