"""What is told of requests: log, audit log, metrics.

May import `http`.
"""
