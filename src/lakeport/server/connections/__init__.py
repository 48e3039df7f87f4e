"""Connections below the level of requests: accepting, admission, limits and HTTP parsing.

May import `http`, `access`, `records` and `config`.
"""
