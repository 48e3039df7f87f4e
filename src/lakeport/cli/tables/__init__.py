"""Commands on tables.

May import `files` and modules directly in `cli`.
"""
