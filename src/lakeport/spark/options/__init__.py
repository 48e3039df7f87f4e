"""Options as Spark's users write them.

May import `frame`, `client` and `engine`.
"""
