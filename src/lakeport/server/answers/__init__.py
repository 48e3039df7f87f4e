"""From a question about a table to the lines of its answer.

May import `http`, `access`, `catalog`, `signing`, `sharing`, `engine` and the kernel.
"""
