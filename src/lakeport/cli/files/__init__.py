"""Reading and writing files of rows: formats, types and values.

May import modules directly in `cli`.
"""
