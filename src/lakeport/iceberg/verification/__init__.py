"""`verify`: compares a mirror with its table, using independent readers.

May import all rooms of `iceberg` but `cleaning`.
"""
