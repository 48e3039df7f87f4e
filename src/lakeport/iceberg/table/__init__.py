"""The parts of an Iceberg table: metadata, schemas, field ids, partitions; and the footers of data files.

May import `encoding`, `engine` and the kernel.
"""
