"""Scans by Spark's own Parquet reader: the kernel plans them, a file system of ours reads the files. It needs the jar
of `jvm/`, and a session in whose JVM it can be loaded; without, `lakeport.spark.frames` reads the rows in Python."""
