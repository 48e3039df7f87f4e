"""Requests that are tried again, and answers that never end early unseen.

May import nothing but `errors` and `version`.
"""
