"""Write rows: create, append and overwrite, and writes whose files come from other processes.

May import `input`, `rows`, `operation`, `workers` and the kernel.
"""
