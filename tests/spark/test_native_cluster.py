"""Spark's own reader on a cluster: the jar reaches executors of a running session, the recipient's token does not."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pyarrow as pa

import lakeport
from lakeport import tables
from tests.client.shares import profile_text
from tests.server.running import recipient, running, sharing
from tests.spark.cluster import run_driver, spark_cluster


def test_executors_read_a_shared_table_and_never_hold_the_token(tmp_path: Path) -> None:
    target = str(tmp_path / "orders")
    for number in range(6):
        rows = pa.table({"id": range(number * 1000, number * 1000 + 1000)})
        if number:
            tables.append(target, rows)
        else:
            tables.create(target, rows, properties={"delta.enableDeletionVectors": "true"})
    tables.delete(target, "id % 10 = 3")
    ids = lakeport.scan(target).to_arrow().column("id").to_pylist()
    token = f"token-{uuid4()}"
    content = sharing({"sales.eu.orders": target}, recipient("ann", token), history_shared=True)
    with running(content) as server, spark_cluster(tmp_path / "cluster") as master:
        profile = tmp_path / "config.share"
        profile.write_text(profile_text(server.endpoint, token))
        (tmp_path / "told").mkdir()
        told = run_driver(
            master, "tests.spark.native_driver", f"{profile}#sales.eu.orders", token, str(tmp_path / "told")
        )
    assert told["reason"] is None
    assert told["found"] == [len(ids), sum(ids), 6]
    assert told["heaps"] == 2
    assert told["told"] == []
    logs = [path for path in (tmp_path / "cluster").rglob("*") if path.is_file() and path.suffix != ".jar"]
    for path in [*logs, *(tmp_path / "told" / "events").rglob("*")]:
        content_of = path.read_bytes() if path.is_file() else b""
        assert token.encode() not in content_of
        assert server.url.encode() + b"/" not in content_of, path
