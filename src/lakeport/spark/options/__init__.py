"""Options as Spark users write them.

May import `frame`, `client` and `engine`.
"""
