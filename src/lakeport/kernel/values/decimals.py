"""The context in which decimals are worked with."""

from decimal import Context

EXACT = Context(prec=100)
"""Holds every digit of any decimal of a table, which are 38 at most. Python's own context rounds to 28 digits, or to as
many as the program sets: `-x`, `abs(x)` and `x.normalize()` all use it."""
