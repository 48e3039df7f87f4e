"""Commands on shares, recipients and shared tables.

May import what is directly in `cli`.
"""
