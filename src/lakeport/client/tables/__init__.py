"""Shared tables as sources of rows: by URL, by directory, or as the provider offers.

May import `rest` and all below it, `engine` and the kernel.
"""
