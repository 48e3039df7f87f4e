"""Tables in object stores that are opened more than once."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from obstore.store import MemoryStore

from lakeport import tables
from lakeport.errors import LakeportError, TableNotFoundError
from lakeport.frame.frame import Frame, open_source
from lakeport.frame.table_cache import CachedPathTable
from lakeport.kernel.engine import Engine
from lakeport.source import LATEST, PathTable
from tests.engine.storage.stores import ROOT, RecordingStore, recording_engine

TABLE = f"{ROOT}/t"


class Bucket:
    """A bucket with a table of two commits, and what other processes do to it."""

    def __init__(self) -> None:
        self.engine, self._store = recording_engine()
        tables.create(TABLE, {"id": [0]}, engine=self.engine)
        self.append(1)

    def append(self, value: int) -> None:
        tables.append(TABLE, {"id": [value]}, engine=self.engine)

    def drop(self) -> None:
        self.engine.storage.delete([file.path for file in self.engine.storage.list_all(TABLE)])

    def reopened(self) -> tuple[Engine, RecordingStore]:
        """Another connection to the same objects."""
        store: MemoryStore = self._store._store
        return recording_engine(store)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def scan(bucket: Bucket) -> Callable[[], tuple[list[int], list[str]]]:
    """The rows of a new frame, and the log files that were requested for them."""
    engine, store = bucket.reopened()
    table = CachedPathTable(lambda: engine, TABLE)

    def scanned() -> tuple[list[int], list[str]]:
        store.asked.clear()
        rows = Frame.of(table).to_arrow().column("id").to_pylist()
        return sorted(rows), [name for method, name in store.asked if not name.endswith(".parquet")]

    return scanned


def test_a_second_scan_asks_only_whether_there_is_anything_new(scan: Any) -> None:
    assert scan()[0] == [0, 1]
    assert scan() == ([0, 1], ["_delta_log"])


def test_a_later_scan_reads_only_new_commits(bucket: Bucket, scan: Any) -> None:
    scan()
    bucket.append(2)
    bucket.append(3)
    rows, asked = scan()
    assert rows == [0, 1, 2, 3]
    assert {name for name in asked if name.endswith(".json")} == {f"{version:020d}.json" for version in (2, 3)}
    assert scan() == ([0, 1, 2, 3], ["_delta_log"])


@pytest.mark.parametrize("more", [0, 1, 2])
def test_a_table_that_was_replaced_is_opened_again(bucket: Bucket, scan: Any, more: int) -> None:
    """By one with as many versions, fewer or more; its commits have the same names, and mostly the same sizes."""
    scan()
    bucket.drop()
    tables.create(TABLE, {"id": [7]}, engine=bucket.engine)
    for number in range(more):
        bucket.append(8 + number)
    assert scan()[0] == [7, 8, 9][: more + 1]
    assert scan()[0] == [7, 8, 9][: more + 1]


def test_a_table_that_is_gone_is_not_found(bucket: Bucket, scan: Any) -> None:
    scan()
    bucket.drop()
    with pytest.raises(TableNotFoundError):
        scan()
    tables.create(TABLE, {"id": [7]}, engine=bucket.engine)
    assert scan()[0] == [7]


def test_a_frame_keeps_its_version(bucket: Bucket) -> None:
    table = CachedPathTable(lambda: bucket.engine, TABLE)
    first = Frame.of(table)
    assert first.version == 1
    bucket.append(2)
    assert Frame.of(table).version == 2
    assert (first.version, first.count()) == (1, 2)
    assert first.at(version=0).count() == 1


def test_an_engine_that_fails_is_replaced(bucket: Bucket) -> None:
    engines = [bucket.reopened(), bucket.reopened()]
    following = iter(engines)
    table = CachedPathTable(lambda: next(following)[0], TABLE)
    assert Frame.of(table).count() == 2
    store = engines[0][1]._store

    class Denied:
        def list(self, *_: Any, **__: Any) -> Any:
            raise PermissionError("403")

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    engines[0][1]._store = Denied()  # type: ignore[assignment]
    frame = Frame.of(table)
    assert frame.to_arrow().num_rows == 2
    assert frame.engine is engines[1][0]
    with pytest.raises(LakeportError):
        PathTable(engines[0][0], TABLE).snapshot(LATEST)


def test_threads_may_share_a_table(bucket: Bucket) -> None:
    table = CachedPathTable(lambda: bucket.engine, TABLE)
    with ThreadPoolExecutor(8) as pool:
        for version in range(2, 6):
            bucket.append(version)
            assert set(pool.map(lambda _: Frame.of(table).to_arrow().num_rows, range(16))) == {version + 1}


def test_a_large_log_is_not_kept(bucket: Bucket, scan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.frame.table_cache._MOST_BYTES", 100)
    scan()
    assert len(scan()[1]) > 1


def test_another_process_opens_the_table_itself(bucket: Bucket) -> None:
    table = open_source(TABLE)
    copy = pickle.loads(pickle.dumps(table))
    assert type(copy) is PathTable
    assert copy.target == TABLE


def test_tables_with_equal_options_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(target: str = TABLE, **options: Any) -> Any:
        return open_source(target, storage_options=options)

    assert opened(region="x") is opened(region="x")
    assert opened(region="x") is not opened(region="y")
    assert opened(region="x") is not opened("s3://bucket/u", region="x")
    assert opened(client={"a": []}) is not opened(client={"a": []})  # has no hash
    before = opened()
    monkeypatch.setenv("AWS_REGION", "elsewhere")
    assert opened() is not before


def test_tables_on_disks_are_not_kept(tmp_path: Any) -> None:
    assert type(open_source(str(tmp_path))) is PathTable
    assert type(open_source(f"file://{tmp_path}")) is PathTable


def test_few_tables_are_kept() -> None:
    first = open_source(f"{TABLE}/0")
    for number in range(1, 16):
        open_source(f"{TABLE}/{number}")
    assert open_source(f"{TABLE}/0") is first
    for number in range(16, 32):
        open_source(f"{TABLE}/{number}")
    assert open_source(f"{TABLE}/0") is not first
