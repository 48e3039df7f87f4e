"""Scans by Spark's own Parquet reader: the kernel plans them, our file system reads the files. Needs the jar of `jvm/`
and a session whose JVM can load it; otherwise `lakeport.spark.frames` reads the rows in Python."""
