"""Where a mirror is published: a directory or a catalog.

May import `table`.
"""
