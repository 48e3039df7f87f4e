"""Streams: versions, offsets, limits, and the files of each batch.

May import `options` and what is directly in `spark`.
"""
