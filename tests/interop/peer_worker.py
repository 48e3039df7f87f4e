"""Spark with Delta's own library, or DuckDB with its Delta extension. `peers.py` starts this with the peer's Python:

    peer_worker.py spark|duckdb SOCKET JARS

On SOCKET, a file descriptor, it takes lists of SQL texts, and answers each list with an Arrow stream for each query in
it (nothing for statements), or with the text of an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

SPARK_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # The tables are tiny: what pays for large ones (compiling plans, optimising compilers, many tasks) costs time here.
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    # So few actions that checkpoints have parts or sidecars.
    "spark.databricks.delta.checkpoint.partSize": "4",
    "spark.databricks.delta.deletionVectors.useMetadataRowIndex": "true",
    # For VACUUM of files that are still young.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
AT_ONCE = 3

Statement = Callable[[str], object]
Query = Callable[[str], pa.Table]


def spark(jars: str) -> tuple[Statement, Query]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("lakeport-interop")
    for name, value in SPARK_SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.config("spark.jars", ",".join(map(str, Path(jars).glob("*.jar")))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session.sql, lambda sql: session.sql(sql).toArrow()


def duckdb(_: str) -> tuple[Statement, Query]:
    import duckdb
    import duckdb_extension_delta

    (extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection.execute, lambda sql: connection.cursor().execute(sql).to_arrow_table()


def encode_rows(rows: pa.Table) -> bytes:
    """Rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def serve(run: Statement, query: Query, connection: Connection) -> None:
    """Answers until the other side hangs up."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while True:
            try:
                kind, texts = connection.recv()
            except EOFError:
                return
            try:
                if kind == "queries":
                    connection.send([encode_rows(rows) for rows in pool.map(query, texts)])
                else:
                    connection.send([None for _ in map(run, texts)])
            except Exception as error:
                connection.send(str(error)[:5000])


if __name__ == "__main__":
    _, peer, socket, jars = sys.argv
    with Connection(int(socket)) as connection:
        serve(*{"spark": spark, "duckdb": duckdb}[peer](jars), connection)
