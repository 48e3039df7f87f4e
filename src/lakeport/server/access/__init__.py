"""Authentication, rate limits and signed tokens.

May import `http` and `catalog`.
"""
