"""What an Iceberg table is: metadata, schemas, field ids, partitions; and what the footers of data files say.

May import `encoding`, `engine` and the kernel.
"""
