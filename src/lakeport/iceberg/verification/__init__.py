"""`verify`: a mirror beside its table, by other readers than those that made it.

May import all rooms of `iceberg` but `cleaning`.
"""
