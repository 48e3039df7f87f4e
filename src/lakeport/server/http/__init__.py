"""One request and its answer: ASGI, the exchange, refusals, lanes of threads.

Imports nothing of the server.
"""
