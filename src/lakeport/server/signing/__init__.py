"""Signed URLs: the holder of one may read one file, for a while, without a token.

Object stores serve their files directly; this server serves files on disk, with `lakeport.server.files`.
"""
