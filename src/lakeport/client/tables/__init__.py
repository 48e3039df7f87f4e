"""Shared tables as sources of rows: by URLs, by their directory, as the provider offers them.

May import `rest` and all below it, `engine` and the kernel.
"""
