"""One request and its response: ASGI, request records, refusals, thread pools.

Imports nothing else from the server.
"""
