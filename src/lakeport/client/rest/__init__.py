"""The protocol's APIs: sessions, pages, responses.

May import `auth`, `http`, `sharing` and the kernel.
"""
