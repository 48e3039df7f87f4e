"""Commands on tables.

May import `files` and what is directly in `cli`.
"""
