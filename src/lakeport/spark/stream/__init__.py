"""Streams: versions, offsets, limits, and the files of each batch.

May import `options` and modules directly in `spark`.
"""
