"""Profiles, and the header that authenticates requests.

May import `http` and `sharing`.
"""
