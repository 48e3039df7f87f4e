"""JSON into Arrow: files of the log, and texts in its columns.

May import the kernel.
"""
