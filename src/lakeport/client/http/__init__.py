"""Requests with retries, and responses whose truncation never goes unnoticed.

May import nothing but `errors` and `version`.
"""
