"""Files of rows, read and written: formats, their types, their values.

May import what is directly in `cli`.
"""
