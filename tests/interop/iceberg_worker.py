"""Spark with Iceberg's own library. `iceberg_spark.py` starts this with a Python that has it: `iceberg_worker.py SOCKET
JARS`.

It answers as `peer_worker.py` does; a query is the path of a table, the id of a snapshot, and columns in SQL, with line
breaks between them.
"""

import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
from peer_worker import SPARK_SETTINGS, serve
from pyspark.sql import SparkSession

SETTINGS = {name: value for name, value in SPARK_SETTINGS.items() if "delta" not in value and "delta" not in name}


def start(jars: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("lakeport-iceberg")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.config("spark.jars", ",".join(map(str, Path(jars).glob("*.jar")))).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


if __name__ == "__main__":
    session = start(sys.argv[2])

    def query(text: str) -> pa.Table:
        path, snapshot_id, *columns = text.split("\n")
        return (
            session.read.format("iceberg").option("versionAsOf", snapshot_id).load(path).selectExpr(*columns).toArrow()
        )

    with Connection(int(sys.argv[1])) as socket:
        serve(session.sql, query, socket)
