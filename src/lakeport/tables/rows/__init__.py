"""Find, change and rewrite rows: delete and update, and the parts that merge shares.

May import `input`, `operation`, `workers` and the kernel.
"""
