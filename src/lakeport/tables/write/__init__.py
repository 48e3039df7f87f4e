"""Rows in: create, append and overwrite, and writes whose files others make.

May import `input`, `rows`, `operation`, `workers` and the kernel.
"""
