"""Connections before they are requests: accepted, counted, limited, and the bytes of HTTP.

May import `http`, `access`, `records` and `config`.
"""
