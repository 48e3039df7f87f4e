"""Profiles, and the header that proves who asks.

May import `http` and `sharing`.
"""
