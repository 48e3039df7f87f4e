"""Who asks, how often, and with which tokens.

May import `http` and `catalog`.
"""
