"""Manifests and lists of them, written and read.

May import `encoding` and `table`.
"""
