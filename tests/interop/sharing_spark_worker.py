"""Spark with the Delta Sharing connector. `sharing_clients.py` starts this with Spark's Python:

    sharing_spark_worker.py SOCKET JARS...

On SOCKET, a file descriptor, it takes settings of the session and a list of reads that they are for, each a dictionary
with the keys of `Read` in `sharing_clients.py`. It answers each with an Arrow stream and what there is to tell of it,
or with the text of an error.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
from peer_worker import AT_ONCE, SPARK_SETTINGS, encode_rows
from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.delta.sharing.network.numRetries": "1",
    # So that URLs that live for seconds are refreshed in time.
    "spark.delta.sharing.driver.refreshCheckIntervalMs": "300",
    "spark.delta.sharing.driver.refreshThresholdMs": "2500",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
Answer = tuple[bytes | None, Any]


def start(folders: list[str]) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("lakeport-sharing")
    for name, value in (SPARK_SETTINGS | SETTINGS).items():
        builder = builder.config(name, value)
    jars = [str(jar) for folder in folders for jar in sorted(Path(folder).glob("*.jar"))]
    session = builder.config("spark.jars", ",".join(jars)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def answer(session: SparkSession, read: dict[str, Any]) -> Answer:
    """Rows and what there is to tell of them, or no rows and an error."""
    try:
        if read["stream"]:
            return stream_rows(session, read)
        frame = queried(session, session.read, read)
        return encode_rows(paused_rows(frame, read["pause"]) if read["pause"] else frame.toArrow()), None
    except Exception as error:
        lines = [line for line in str(error).splitlines() if not line.startswith("\tat ")]
        return None, "\n".join(lines)[:3000]


def queried(session: SparkSession, reader: Any, read: dict[str, Any]) -> DataFrame:
    """What the query gives, with the shared table as `{t}`."""
    frame = reader.format("deltaSharing").options(**read["options"]).load(read["url"])
    return session.sql(read["query"], t=frame)


def paused_rows(frame: DataFrame, seconds: float) -> pa.Table:
    """Rows that are fetched partition by partition, with a pause after the first row."""
    rows = frame.toLocalIterator()
    first = next(rows)
    time.sleep(seconds)
    return pa.Table.from_pylist([row.asDict() for row in (first, *rows)])


def stream_rows(session: SparkSession, read: dict[str, Any]) -> Answer:
    """All that there is now, from where the checkpoint ends, and how many micro-batches it came in."""
    batches: list[pa.Table] = []
    with tempfile.TemporaryDirectory() as folder:
        writer = queried(session, session.readStream, read).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", read["checkpoint"] or folder)
        query = writer.foreachBatch(lambda frame, _: batches.append(frame.toArrow())).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
    return encode_rows(pa.concat_tables(batches)), sum(batch.num_rows > 0 for batch in batches)


def serve(session: SparkSession, connection: Connection) -> None:
    """Answers until the other side hangs up."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while True:
            try:
                settings, reads = connection.recv()
            except EOFError:
                return
            for name, value in settings.items():
                session.conf.set(name, value)
            connection.send(list(pool.map(lambda read: answer(session, read), reads)))
            for name in settings:
                session.conf.unset(name)


if __name__ == "__main__":
    _, socket, *folders = sys.argv
    with Connection(int(socket)) as connection:
        serve(start(folders), connection)
