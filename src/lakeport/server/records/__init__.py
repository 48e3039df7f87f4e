"""Records of requests: log, audit log, metrics.

May import `http`.
"""
