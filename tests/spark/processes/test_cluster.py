"""A cluster: Spark's own reader, whose jar reaches executors while the recipient's token does not; and operations."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from tests.client.faulty_proxy import Fault, faulty_proxy
from tests.client.shares import profile_text
from tests.parts import write_parts
from tests.properties import VECTORS
from tests.server.running import recipient, running, sharing
from tests.spark.processes.elsewhere import compare_operations
from tests.spark.processes.servers import Cluster, run_driver, spark_cluster

pytestmark = pytest.mark.usefixtures("native_jar")

DRIVER = "tests.spark.processes.native_driver"
FILES = 6


def orders_at(target: str) -> tuple[int, int, int]:
    """A table of some files with deleted rows; how many rows it has, the sum of their ids, and the number of files."""
    parts = (pa.table({"id": range(start, start + 1000)}) for start in range(0, FILES * 1000, 1000))
    write_parts(target, parts, properties=VECTORS)
    tables.delete(target, "id % 10 = 3")
    ids = lakeport.scan(target).to_arrow().column("id").to_pylist()
    return len(ids), sum(ids), FILES


def profile_at(folder: Path, name: str, endpoint: str, token: str) -> str:
    path = folder / name
    path.write_text(profile_text(endpoint, token))
    return f"{path}#sales.eu.orders"


def test_executors_read_a_shared_table_and_never_hold_the_token(tmp_path: Path, cluster: Cluster) -> None:
    table = str(tmp_path / "orders")
    expected = orders_at(table)
    token = f"token-{uuid4()}"
    content = sharing({"sales.eu.orders": table}, recipient("ann", token), history_shared=True)
    folder = tmp_path / "told"
    folder.mkdir()
    with running(content) as server:
        target = profile_at(tmp_path, "config.share", server.endpoint, token)
        told = run_driver(cluster.master, DRIVER, "read_and_dump", target, token, str(folder))
    assert told["reason"] is None
    assert tuple(told["found"]) == expected
    assert told["heaps"] == 2
    assert told["told"] == []
    logs = [path for path in cluster.folder.rglob("*") if path.is_file() and path.suffix != ".jar"]
    for path in [*logs, *(folder / "events").rglob("*")]:
        content_of = path.read_bytes() if path.is_file() else b""
        assert token.encode() not in content_of
        assert server.url.encode() + b"/" not in content_of, path


@pytest.mark.exhaustive(instead="the test before; stalls: test_native_shared")
def test_executors_that_start_late_and_tasks_that_run_twice_give_the_right_rows(tmp_path: Path) -> None:
    table = str(tmp_path / "orders")
    expected = orders_at(table)
    token = f"token-{uuid4()}"
    files: list[str] = []

    def stall_once(path: str, byte_range: str | None) -> Fault:
        """When tasks read the second file; the driver has looked at each of them before, and reads deletion vectors."""
        files.extend([path] if byte_range and ".parquet" in path else [])
        return Fault.STALL if files[FILES + 1 :] == [path] else Fault.NONE

    folder = tmp_path / "told"
    folder.mkdir()
    content = sharing({"sales.eu.orders": table}, recipient("ann", token), history_shared=True)
    with (
        running(content) as server,
        faulty_proxy(server.url, stall_once) as proxy,
        spark_cluster(tmp_path / "cluster", workers=1) as master,
    ):
        target = profile_at(tmp_path, "config.share", server.endpoint, token)
        slow = profile_at(tmp_path, "slow.share", server.endpoint.replace(server.url, proxy.url), token)
        told = run_driver(master, DRIVER, "read_on_a_late_worker", target, slow, str(folder))
    assert proxy.done[Fault.STALL] == 1, files
    assert told["executors"] == ["0", "1"]
    assert [tuple(told[read]) for read in ("before", "found", "slow")] == [expected] * 3
    assert told["speculative"] >= 1
    assert told["slow seconds"] < 150


@pytest.mark.exhaustive(instead="the same by Connect; the first test here")
def test_operations_run_on_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    compare_operations(tmp_path, cluster.master)
