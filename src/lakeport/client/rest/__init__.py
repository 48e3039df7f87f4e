"""The APIs of the protocol: sessions, pages, answers.

May import `auth`, `http`, `sharing` and the kernel.
"""
