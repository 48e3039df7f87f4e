"""One request and its response: ASGI, the exchange, refusals, thread pools.

Imports nothing else from the server.
"""
