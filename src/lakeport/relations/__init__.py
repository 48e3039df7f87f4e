"""Frames as lazy relations of DuckDB and lazy frames of Polars.

May import `engine` and the kernel; frames only as types.
"""
