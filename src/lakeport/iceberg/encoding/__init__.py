"""Iceberg's bytes: Avro, and single values.

Imports nothing of the mirror.
"""
