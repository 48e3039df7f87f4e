"""Commands on shares, recipients and shared tables.

May import modules directly in `cli`.
"""
