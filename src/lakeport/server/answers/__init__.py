"""From a request on a table to the lines of the answer.

May import `http`, `access`, `catalog`, `signing`, `sharing`, `engine` and the kernel.
"""
