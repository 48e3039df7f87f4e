"""How many requests a table in an object store takes."""

import time
from threading import Barrier
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.engine import engine_over
from lakeport.engine.storage.objects import ObjectFiles
from lakeport.engine.storage.storage import Storage
from lakeport.errors import StorageError
from lakeport.frame.frame import Frame
from lakeport.kernel.engine import FileStatus
from lakeport.source import PathTable
from lakeport.testing.builder import TableBuilder, struct
from tests.engine.storage.stores import ROOT, recording_engine

TABLE = f"{ROOT}/t"


def commits(*versions: int) -> list[tuple[str, str]]:
    return [("get", f"{version:020d}.json") for version in versions]


def test_a_table_is_opened_by_a_listing_the_hint_and_its_commits() -> None:
    engine, store = recording_engine()
    table = TableBuilder(engine, TABLE, struct(id="long"))
    table.create()
    table.commit(table.add({"id": [1, 2]}))
    store.asked.clear()
    assert Frame.of(PathTable(engine, TABLE)).count() == 2
    log = [("get", "_last_checkpoint"), ("list", "_delta_log")]
    assert sorted(store.asked) == sorted([*log, *commits(0, 1)])


def test_a_checkpoint_is_fetched_once() -> None:
    engine, store = recording_engine()
    table = TableBuilder(engine, TABLE, struct(id="long"))
    table.create()
    table.commit(table.add({"id": [1, 2]}))
    table.checkpoint()
    store.asked.clear()
    assert Frame.of(PathTable(engine, TABLE)).to_arrow().num_rows == 2
    found = [name for method, name in store.asked if method == "get"]
    assert len([name for name in found if name.endswith(".checkpoint.parquet")]) == 1
    assert len(found) == len(set(found))


def test_a_small_file_that_was_overwritten_is_fetched_again() -> None:
    engine, _ = recording_engine()
    for content in (b"one", b"two"):
        engine.storage.write(f"{TABLE}/x", content, overwrite=True)
        [file] = engine.storage.list_all(TABLE)
        assert engine.storage.open_input(file).read() == content


def test_small_files_that_are_kept_are_few() -> None:
    engine, store = recording_engine()
    for number in range(6):
        engine.storage.write(f"{TABLE}/{number}", bytes(2 << 20))
    files = sorted(engine.storage.list_all(TABLE), key=lambda file: file.path)
    store.asked.clear()
    for file in [*files, files[5], files[2], files[1]]:
        assert len(engine.storage.open_input(file).read()) == 2 << 20
    assert [name for _, name in store.asked] == ["0", "1", "2", "3", "4", "5", "1"]


def test_the_first_of_many_files_is_asked_for_at_once() -> None:
    engine, store = recording_engine()
    for name in ("a", "b", "c"):
        engine.storage.write(f"{TABLE}/{name}", name.encode())
    store.asked.clear()
    contents = engine.storage.read_many([FileStatus(f"{TABLE}/{name}", 1) for name in ("a", "b", "c")])
    for _ in range(1000):
        if store.asked:
            break
        time.sleep(0.01)
    assert store.asked == [("get", "a")]
    assert list(contents) == [b"a", b"b", b"c"]


def test_a_commit_asks_for_no_checksum_that_was_listed_or_is_known() -> None:
    engine, store = recording_engine()
    tables.create(TABLE, {"id": [1]}, engine=engine)
    store.asked.clear()
    tables.append(TABLE, pa.table({"id": [2]}), engine=engine)
    assert [name for method, name in store.asked if method == "get" and name.endswith(".crc")] == [f"{0:020d}.crc"]
    engine.storage.delete([f"{TABLE}/_delta_log/{1:020d}.crc"])
    store.asked.clear()
    tables.append(TABLE, pa.table({"id": [3]}), engine=engine)
    assert not [name for _, name in store.asked if name.endswith(".crc")]


def test_a_search_for_rows_fetches_many_files_at_once() -> None:
    engine, store = recording_engine()
    tables.create(TABLE, {"id": [0]}, engine=engine)
    for number in range(1, 12):
        tables.append(TABLE, {"id": [number, 100]}, engine=engine)
    together = Barrier(12)  # more than there are cores

    class Together(ObjectFiles):
        def read(self, path: str, *more: Any) -> bytes:
            if "/part-" in path:
                together.wait(10)
            return super().read(path, *more)

    storage = Storage()
    storage._stores[ROOT] = Together(ROOT, store)  # type: ignore[arg-type]
    found = tables.delete(TABLE, "id + 0 = 200", engine=engine_over(storage))
    assert found.metrics["numDeletedRows"] == 0


def test_the_footer_of_a_file_is_fetched_once() -> None:
    engine, store = recording_engine()
    rows = pa.table({name: np.random.default_rng(5).integers(0, 1 << 62, 400_000) for name in "ab"})
    tables.create(TABLE, rows, engine=engine)
    for requests in (2, 1):  # the footer and a column; the column
        store.asked.clear()
        assert Frame.of(PathTable(engine, TABLE)).select("a").to_arrow().equals(rows.select(["a"]))
        assert len([name for _, name in store.asked if name.startswith("part-")]) == requests


def test_a_footer_of_another_content_is_not_used() -> None:
    engine, _ = recording_engine()
    path, size = f"{TABLE}/x", 3 << 20
    for content in (b"1", b"2"):
        engine.storage.write(path, content * size, overwrite=True)
        file = FileStatus(path, size, 5)  # as a log has it: without a tag
        if content == b"2":
            with engine.storage.open_input(file) as source, pytest.raises(StorageError, match="overwritten"):
                source.read(10)
        with engine.storage.open_input(file) as source:
            source.seek(size - 10)
            assert source.read(10) == content * 10
            source.seek(0)
            assert source.read(10) == content * 10
