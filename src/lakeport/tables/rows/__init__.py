"""Rows found, changed and written anew: delete and update, and what merge shares with them.

May import `input`, `operation`, `workers` and the kernel.
"""
