"""The cache of tables: what it keeps, what it looks for, and that it never mixes two tables."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport import tables
from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import StorageError, TableNotFoundError, VersionNotFoundError
from lakeport.kernel.engine import FileStatus
from lakeport.server.answers import opened_tables as snapshots
from lakeport.server.answers.opened_tables import CachedTable, SharedSnapshot, TableCache
from lakeport.server.catalog.model import Table
from lakeport.testing.counting import CountingStorage
from tests.properties import VECTORS
from tests.server.asking import built
from tests.tables.maintained import numbers


def cached(location: str | Path, *, stale_is_fine: bool = False) -> tuple[CachedTable, CountingStorage]:
    storage = CountingStorage(Storage())
    return CachedTable(engine_over(storage), str(location), stale_is_fine), storage


def ids(shared: SharedSnapshot) -> list[int]:
    """The rows of the files that the snapshot names."""
    files = [file.path for file in shared.delta.scan_builder().build().files()]
    return sorted(row for path in files for row in pq.read_table(path).column("id").to_pylist())


def test_a_commit_is_seen_and_only_it_is_read(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 3))
    table, storage = cached(target)
    first = table.latest()
    assert table.latest() is first
    tables.append(target, numbers(3, 3))
    storage.opened.clear()
    assert table.latest().version == 1
    assert storage.opened == [f"{1:020d}.json"]
    assert ids(table.latest()) == list(range(6))


def test_a_stale_snapshot_is_served_where_that_is_fine(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 3))
    table, _ = cached(target, stale_is_fine=True)
    assert table.latest().version == 0
    tables.append(target, numbers(3, 3))
    assert table.latest().version == 0
    assert table.at_version(1).version == 1


def test_an_older_version_is_loaded_once(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 3))
    for start in range(3, 21, 3):
        tables.append(target, numbers(start, 3))
    table, storage = cached(target)
    older = table.at_version(2)
    storage.opened.clear()
    assert table.at_version(2) is older
    assert storage.opened == []
    for version in (0, 1, 3, 4):
        assert table.at_version(version).version == version
    assert table.at_version(2) is not older
    assert table.at_version(6) is table.latest()
    with pytest.raises(VersionNotFoundError):
        table.at_version(7)


def test_a_version_that_has_just_been_written_is_found(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 3))
    table, _ = cached(target)
    table.latest()
    tables.append(target, numbers(3, 3))
    assert table.at_version(1).version == 1


def replace(target: str, versions: int) -> None:
    """Another table in the place of the one that was there, whose ids begin at 100."""
    shutil.rmtree(target)
    tables.create(target, numbers(100, 1))
    for version in range(1, versions):
        tables.append(target, numbers(100 + version, 1))
    for file in Path(target, "_delta_log").iterdir():  # as if it had been made later
        os.utime(file, (2_000_000_000, 2_000_000_000))


@pytest.mark.parametrize("versions", [1, 2, 3, 5])
@pytest.mark.parametrize("asked", ["latest", "version"])
def test_a_table_that_takes_the_place_of_another_is_not_mixed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: int, asked: str
) -> None:
    monkeypatch.setattr(snapshots, "_VERIFY_SECONDS", 0.0)
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 1))
    tables.append(target, numbers(1, 1))
    tables.append(target, numbers(2, 1))
    table, _ = cached(target)
    assert ids(table.latest()) == [0, 1, 2]
    assert ids(table.at_version(0)) == [0]
    replace(target, versions)
    found = table.latest() if asked == "latest" else table.at_version(versions - 1)
    assert found.version == versions - 1
    assert ids(found) == list(range(100, 100 + versions))
    assert ids(table.at_version(0)) == [100]


def test_newer_commits_of_another_table_are_noticed_at_once(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 1))
    table, _ = cached(target)
    assert ids(table.latest()) == [0]
    replace(target, 3)
    assert ids(table.latest()) == [100, 101, 102]


def test_a_table_that_is_gone_is_not_found_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_VERIFY_SECONDS", 0.0)
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 1))
    table, _ = cached(target)
    table.latest()
    shutil.rmtree(target)
    for _ in range(2):
        with pytest.raises(TableNotFoundError):
            table.latest()
    tables.create(target, numbers(5, 1))
    assert ids(table.latest()) == [5]


def test_whoever_asks_sees_what_was_there_when_it_asked(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 1))
    table, _ = cached(target)
    with ThreadPoolExecutor(8) as threads:
        for version in range(1, 15):
            tables.append(target, numbers(version, 1))
            found = [threads.submit(table.latest) for _ in range(8)]
            assert {future.result().version for future in found} == {version}


class FailingStorage(CountingStorage):
    """While it `fails`, whoever looks into it gets an error, once `told` is set."""

    def __init__(self) -> None:
        super().__init__(Storage())
        self.fails, self.asked, self.told = False, Event(), Event()

    def _look(self, path: str) -> str:
        if self.fails:
            self.asked.set()
            assert self.told.wait(20)
            self.fails = False
            raise StorageError("the storage does not answer", path=path)
        return path

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        return super().list_from(self._look(directory), first_name)

    def status(self, path: str) -> FileStatus | None:
        return super().status(self._look(path))


def test_who_waited_for_a_look_that_failed_looks_again(tmp_path: Path) -> None:
    target, storage = str(tmp_path / "t"), FailingStorage()
    tables.create(target, numbers(0, 1))
    table = CachedTable(engine_over(storage), target, stale_is_fine=False)
    assert table.latest().version == 0
    tables.append(target, numbers(1, 1))
    storage.fails = True
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(table.latest)
        assert storage.asked.wait(20)
        second = threads.submit(table.latest)
        time.sleep(0.05)  # until it waits for the first
        storage.told.set()
        with pytest.raises(StorageError):
            first.result()
        assert second.result().version == 1


def test_threads_that_ask_for_an_older_version_at_once_get_the_same(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 3))
    tables.append(target, numbers(3, 3))
    table, _ = cached(target)
    together = Barrier(4)

    def ask() -> SharedSnapshot:
        together.wait(20)
        return table.at_version(0)

    with ThreadPoolExecutor(4) as threads:
        found = [future.result() for future in [threads.submit(ask) for _ in range(4)]]
    assert all(shared is found[0] for shared in found)


def test_a_log_that_is_cleaned_up_meanwhile_does_not_matter(tmp_path: Path) -> None:
    builder = built(tmp_path / "t")
    builder.create(builder.add({"id": [0]}))
    table, _ = cached(builder.root)
    assert table.latest().version == 0
    for number in range(1, 4):
        builder.commit(builder.add({"id": [number]}))
    builder.checkpoint(3)
    for version in range(4):
        Path(builder.log_file(f"{version:020d}.json")).unlink()
    builder.commit(builder.add({"id": [4]}))
    assert ids(table.latest()) == [0, 1, 2, 3, 4]
    with pytest.raises(VersionNotFoundError):
        table.at_version(1)


def test_totals_count_files_bytes_and_vectors(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 10), properties=VECTORS)
    tables.append(target, numbers(10, 10))
    tables.delete(target, "id = 3")
    table, _ = cached(target)
    files = lakeport.scan(target).files()
    totals = table.latest().totals
    assert (totals.files, totals.size, totals.vectors) == (2, sum(file.size for file in files), 1)


def entry(name: str, location: str, **storage: str) -> Table:
    return Table(id=name, share="s", schema="x", name=name, location=location, storage=storage)


def test_tables_are_kept_up_to_a_number_of_them(tmp_path: Path) -> None:
    cache = TableCache({}, 2)
    names = [entry(name, str(tmp_path / name)) for name in "abc"]
    first = cache.table(names[0])
    assert cache.table(names[0]) is first
    cache.table(names[1])
    cache.table(names[0])
    cache.table(names[2])
    assert len(cache) == 2
    assert cache.table(names[0]) is first


def test_a_cache_of_no_tables_keeps_none(tmp_path: Path) -> None:
    cache = TableCache({}, 0)
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 1))
    assert cache.table(entry("a", target)).latest().version == 0
    assert len(cache) == 0


def test_one_place_with_other_options_is_another_table(tmp_path: Path) -> None:
    cache = TableCache({"aws_region": "eu-west-1"}, 5)
    location = "s3://bucket/orders"
    assert cache.table(entry("a", location)) is cache.table(entry("b", location))
    assert cache.table(entry("a", location)) is not cache.table(entry("a", location, aws_region="us-east-1"))
