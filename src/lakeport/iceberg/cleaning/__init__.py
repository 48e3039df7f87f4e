"""`clean`: remove files that no snapshot needs.

May import all rooms of `iceberg` but `verification`.
"""
