"""Reading and writing of manifests and manifest lists.

May import `encoding` and `table`.
"""
