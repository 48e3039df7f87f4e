"""Copies of shared tables: byte for byte, version by version, and whole at any moment."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.client.auth import open_profile
from lakeport.client.http.pool import HttpPool
from lakeport.client.rest.server import SharingServer
from lakeport.client.sync import SyncResult
from lakeport.client.sync.destination import Destination
from lakeport.client.sync.run import sync_from
from lakeport.client.sync.sources import UrlSource
from lakeport.engine import default_engine, engine_over, memory_engine
from lakeport.engine.storage.storage import Storage
from lakeport.errors import (
    CommitConflictError,
    CorruptTableError,
    MissingFileError,
    OutOfSpaceError,
    SharingError,
    SyncError,
)
from lakeport.kernel.engine import OutputFile
from lakeport.sharing.names import TableName
from tests.client.syncing import Provider, changes, data_files, providing, snapshot, synced_version
from tests.interop.shareable import OWN, orders, write_orders
from tests.rows import texts_of

TRACKED = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """A provider of two tables of five versions, one of them with advanced features."""
    with providing(tmp_path / "provider", *OWN) as found:
        for name, properties in OWN.items():
            write_orders(found.path(name), properties)
        yield found


def write_more(path: str) -> None:
    """Five versions: rows are inserted, moved, deleted and changed, and a property is set."""
    tables.append(path, orders(30, 40))
    tables.optimize(path)
    tables.delete(path, "id % 10 = 5")
    tables.update(path, {"amount": "0.0"}, "id < 3")
    tables.set_properties(path, {"quality": "gold"})


@pytest.mark.parametrize("table", OWN)
def test_the_first_sync_copies_the_bytes_and_what_the_log_says_of_them(
    provider: Provider, tmp_path: Path, table: str
) -> None:
    dest = tmp_path / "copy"
    result = provider.sync(table, dest)
    source, copy = snapshot(provider.path(table)), snapshot(dest)
    assert (result.version, result.source_version, result.commits) == (0, 4, 1)
    assert sorted(data_files(dest).values()) == sorted(data_files(provider.path(table)).values())
    assert result.fetched_files == len(data_files(dest))
    assert result.fetched_bytes == sum(map(len, data_files(dest).values()))
    assert copy.protocol == source.protocol
    assert copy.metadata.id == source.metadata.id
    assert copy.metadata.schema_string == source.metadata.schema_string
    assert copy.metadata.partition_columns == source.metadata.partition_columns
    noted = {"lakeport.sync.table": f"share.schema.{table}", "lakeport.sync.version": "4"}
    assert copy.properties == source.properties | noted
    assert texts_of(dest) == texts_of(provider.path(table))
    mine, theirs = (sorted(f.stats or "" for f in lakeport.scan(str(p)).files()) for p in (dest, provider.path(table)))
    assert mine == theirs


def test_a_copy_that_is_up_to_date_is_left_alone(provider: Provider, tmp_path: Path) -> None:
    provider.sync("plain", tmp_path / "copy")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "copy").rglob("*")}
    result = provider.sync("plain", tmp_path / "copy")
    assert (result.version, result.source_version, result.commits, result.fetched_files) == (0, 4, 0, 0)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "copy").rglob("*")} == before


@pytest.mark.parametrize("table", OWN)
def test_every_version_of_the_provider_becomes_one_of_the_copy(provider: Provider, tmp_path: Path, table: str) -> None:
    dest, path = tmp_path / "copy", provider.path(table)
    provider.sync(table, dest)
    write_more(path)
    result = provider.sync(table, dest, verify=True)
    assert (result.version, result.source_version, result.commits) == (5, 9, 5)
    assert result.verified_files == len(lakeport.scan(path).files())
    assert [texts_of(dest, version) for version in range(6)] == [texts_of(path, version) for version in range(4, 10)]
    assert changes(dest, 1) == changes(path, 5)
    assert snapshot(dest).properties["quality"] == "gold"
    mine, theirs = (lakeport.scan(str(p)).history(4) for p in (dest, path))
    assert [c.info["operation"] for c in mine] == ["SYNC"] * 4
    assert [c.info["operationParameters"]["version"] for c in mine] == ["9", "8", "7", "6"]
    assert abs(mine[1].info["timestamp"] - theirs[1].timestamp) < 1000


def test_rows_that_are_only_moved_are_no_changes(provider: Provider, tmp_path: Path) -> None:
    provider.sync("plain", tmp_path / "copy")
    tables.optimize(provider.path("plain"))
    result = provider.sync("plain", tmp_path / "copy")
    assert result.removed_files > 0
    assert changes(tmp_path / "copy", 1) == []


def test_files_are_fetched_once(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("advanced"), tmp_path / "copy"
    first = provider.sync("advanced", dest)
    tables.delete(path, "id = 7")
    deleted = provider.sync("advanced", dest)
    assert (deleted.added_files, deleted.removed_files, deleted.fetched_files) == (1, 1, 0)
    tables.restore(path, version=4)
    restored = provider.sync("advanced", dest)
    assert (restored.added_files, restored.fetched_files) == (1, 0)
    assert len(list(dest.glob("*.parquet"))) == first.fetched_files
    assert texts_of(dest) == texts_of(path)


def test_a_large_file_comes_in_pieces(tmp_path: Path) -> None:
    with providing(tmp_path / "provider", "numbers") as provider:
        values = np.random.default_rng(1).integers(0, 1 << 60, 2_500_000)
        tables.create(provider.path("numbers"), pa.table({"value": values}))
        told: list[tuple[int, int]] = []
        provider.sync("numbers", tmp_path / "copy", progress=lambda done, total: told.append((done, total)))
        (data,) = data_files(provider.path("numbers")).values()
        assert list(data_files(tmp_path / "copy").values()) == [data]
        assert len(told) == 3
        assert told[-1] == (len(data), len(data))


@pytest.mark.parametrize("squash", [True, False])
def test_one_version_stands_for_all_where_the_history_is_not_shared_or_not_wanted(tmp_path: Path, squash: bool) -> None:
    with providing(tmp_path / "provider", "orders", history_shared=squash) as provider:
        write_orders(provider.path("orders"), OWN["advanced"])
        dest = tmp_path / "copy"
        provider.sync("orders", dest, squash=squash)
        write_more(provider.path("orders"))
        result = provider.sync("orders", dest, squash=squash, verify=True)
        assert (result.version, result.source_version, result.commits) == (1, 9, 1)
        assert texts_of(dest) == texts_of(provider.path("orders"))
        assert texts_of(dest, 0) == texts_of(provider.path("orders"), 4)


def test_schema_protocol_and_partitioning_are_followed(tmp_path: Path) -> None:
    with providing(tmp_path / "provider", "orders") as provider:
        path, dest = provider.path("orders"), tmp_path / "copy"
        tables.create(path, orders(0, 10))
        provider.sync("orders", dest)
        tables.add_columns(path, {"note": "string"})
        tables.set_properties(path, OWN["advanced"])
        tables.rename_column(path, "amount", "total")
        tables.delete(path, "id = 3")
        tables.overwrite(path, orders(5, 25), partition_by=["day"], overwrite_schema=True)
        provider.sync("orders", dest, verify=True)
        assert [texts_of(dest, version) for version in range(6)] == [texts_of(path, version) for version in range(6)]
        assert snapshot(dest).partition_columns == ("day",)
        assert snapshot(dest).protocol == snapshot(path).protocol
        assert snapshot(dest).schema == snapshot(path).schema


def test_rows_keep_their_ids_and_versions_their_times(tmp_path: Path) -> None:
    with providing(tmp_path / "provider", "orders") as provider:
        path, dest = provider.path("orders"), tmp_path / "copy"
        tables.create(path, orders(0, 10), properties=TRACKED)
        tables.append(path, orders(10, 20))
        provider.sync("orders", dest)
        tables.append(path, orders(20, 30))
        tables.update(path, {"amount": "0.0"}, "id < 3")
        provider.sync("orders", dest)
        mine, theirs = (lakeport.scan(str(p)).with_row_tracking().to_arrow() for p in (dest, path))
        assert mine.sort_by("id").equals(theirs.sort_by("id"))
        assert [c.timestamp for c in lakeport.scan(str(dest)).history()] == [
            c.timestamp for c in lakeport.scan(path).history()
        ][:3]
        mark = snapshot(dest).domain_metadata["delta.rowTracking"]
        assert mark == snapshot(path).domain_metadata["delta.rowTracking"]


def test_a_server_that_knows_only_the_parquet_format_gives_the_rows_too(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("plain"), str(tmp_path / "copy")
    with SharingServer(open_profile(provider.profile), HttpPool(), formats=("parquet",)) as server:
        source = UrlSource(server, TableName("share", "schema", "plain"))
        sync_from(source, Destination(default_engine(), dest))
        write_more(path)
        result = sync_from(source, Destination(default_engine(), dest), verify=True)
    assert (result.version, result.source_version) == (5, 9)
    assert [texts_of(dest, version) for version in range(6)] == [texts_of(path, version) for version in range(4, 10)]
    assert sorted(data_files(dest).values()) == sorted(data_files(path).values())


def test_the_copy_may_be_in_any_storage(provider: Provider) -> None:
    engine = memory_engine()
    provider.sync("advanced", "memory:///copy", engine=engine)
    tables.delete(provider.path("advanced"), "id = 7")
    result = provider.sync("advanced", "memory:///copy", engine=engine, verify=True)
    assert (result.version, result.source_version) == (1, 5)
    copied = lakeport.scan("memory:///copy", engine=engine).to_arrow().sort_by("id")
    assert copied.equals(lakeport.scan(provider.path("advanced")).to_arrow().sort_by("id"))


def test_names_may_be_in_any_letters(tmp_path: Path) -> None:
    with providing(tmp_path / "provider", "bestellungen%ü") as provider:
        write_orders(provider.path("bestellungen%ü"), OWN["advanced"])
        provider.sync("bestellungen%ü", tmp_path / "ä%20b", verify=True)
        assert texts_of(tmp_path / "ä%20b") == texts_of(provider.path("bestellungen%ü"))


def test_change_data_that_the_provider_has_vacuumed_is_told_by_files(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("plain"), tmp_path / "copy"
    provider.sync("plain", dest)
    tables.update(path, {"amount": "0.0"}, "id = 7")
    shutil.rmtree(f"{path}/_change_data")
    assert provider.sync("plain", dest, verify=True).commits == 1
    kinds = lakeport.scan(str(dest)).changes(start=1).to_arrow()["_change_type"].to_pylist()
    assert sorted(set(kinds)) == ["delete", "insert"]


# What a copy must not be


def test_a_table_that_was_made_anew_is_refused_and_copied_in_full(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("plain"), tmp_path / "copy"
    provider.sync("plain", dest)
    shutil.rmtree(path)
    tables.create(path, pa.table({"x": [1, 2, 3]}))
    with providing(provider.folder, "plain") as again:
        with pytest.raises(SyncError, match=r"not the table that was copied here as share\.schema\.plain.*full=True"):
            again.sync("plain", dest)
        assert synced_version(dest) == 4
        result = again.sync("plain", dest, full=True, verify=True)
    assert (result.version, result.source_version) == (1, 0)
    assert texts_of(dest) == texts_of(path)
    assert snapshot(dest).metadata.id == snapshot(path).metadata.id


def test_a_table_that_went_back_is_refused(provider: Provider, tmp_path: Path) -> None:
    path, dest = Path(provider.path("plain")), tmp_path / "copy"
    provider.sync("plain", dest)
    for file in [*path.glob("_delta_log/*4.json"), *path.glob("_delta_log/*4.crc")]:
        file.unlink()
    with providing(tmp_path / "provider", "plain") as again, pytest.raises(SyncError, match="is at version 3"):
        again.sync("plain", dest)


def test_a_copy_that_somebody_else_has_changed_is_refused_and_repaired_in_full(
    provider: Provider, tmp_path: Path
) -> None:
    path, dest = provider.path("plain"), tmp_path / "copy"
    provider.sync("plain", dest)
    tables.delete(str(dest), "id = 7")
    for _ in range(2):
        with pytest.raises(SyncError, match=r"another writer changed the copy in version 1 \(DELETE\)"):
            provider.sync("plain", dest)
    provider.sync("plain", dest, full=True, verify=True)
    assert texts_of(dest) == texts_of(path)
    tables.append(path, orders(30, 40))
    assert provider.sync("plain", dest, verify=True).commits == 1


def test_a_vacuum_is_no_change(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("plain"), tmp_path / "copy"
    provider.sync("plain", dest)
    tables.optimize(path)
    provider.sync("plain", dest)
    assert tables.vacuum(str(dest), retention=0, enforce_retention=False, dry_run=False).files
    tables.append(path, orders(30, 40))
    assert provider.sync("plain", dest, verify=True).commits == 1


def test_a_table_that_is_no_copy_is_never_touched(provider: Provider, tmp_path: Path) -> None:
    tables.create(str(tmp_path / "mine"), orders(0, 10))
    for full in (False, True):
        with pytest.raises(SyncError, match="not created by a sync; it was left unchanged"):
            provider.sync("plain", tmp_path / "mine", full=full)
    assert snapshot(tmp_path / "mine").version == 0


def test_who_writes_to_the_copy_meanwhile_is_noticed(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("plain"), tmp_path / "copy"
    provider.sync("plain", dest)
    tables.append(path, orders(30, 40))
    written: list[object] = []

    def write(done: int, total: int) -> None:
        if not written:
            written.append(tables.append(str(dest), orders(90, 91)))

    with pytest.raises(CommitConflictError):
        provider.sync("plain", dest, progress=write)
    assert snapshot(dest).version == 1
    with pytest.raises(SyncError, match="WRITE"):
        provider.sync("plain", dest)


def test_of_two_syncs_at_once_one_gives_way(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("plain"), tmp_path / "copy"
    provider.sync("plain", dest)
    tables.append(path, orders(30, 40))
    inner: list[object] = []

    def sync_too(done: int, total: int) -> None:
        if not inner:
            inner.append(None)
            inner[0] = provider.sync("plain", dest)

    with pytest.raises(CommitConflictError):
        provider.sync("plain", dest, progress=sync_too)
    assert provider.sync("plain", dest, verify=True).commits == 0


def test_a_file_that_another_sync_has_not_finished_is_not_taken(tmp_path: Path) -> None:
    dest, inner = tmp_path / "copy", list[SyncResult]()
    with providing(tmp_path / "provider", "large") as provider:
        tables.create(provider.path("large"), {"x": np.random.default_rng(1).random(10_000)})

        def sync_too_and_stop(done: int, total: int) -> None:
            if done == total:
                inner.append(provider.sync("large", dest))
                raise Stop

        with pytest.raises(Stop):
            provider.sync("large", dest, progress=sync_too_and_stop)
        assert inner[0].commits == 1
        assert texts_of(dest) == texts_of(provider.path("large"))


# What may happen on the way


class Stop(Exception):  # noqa: N818  # as an interrupt
    """Ends a sync in the middle."""


def stop_after(calls: int) -> object:
    count = 0

    def stop(done: int, total: int) -> None:
        nonlocal count
        count += 1
        if count > calls:
            raise Stop

    return stop


def test_a_sync_that_ends_early_is_gone_on_with(provider: Provider, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    with pytest.raises(Stop):
        provider.sync("advanced", dest, progress=stop_after(3))
    assert not (dest / "_delta_log").exists()
    there = {file.name for file in dest.glob("*.parquet")}
    assert 0 < len(there) <= 3
    result = provider.sync("advanced", dest, verify=True)
    assert result.fetched_files == result.added_files - len(there)
    assert there <= data_files(dest).keys()


def test_what_a_killed_sync_left_half_is_not_taken(provider: Provider, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    with pytest.raises(Stop):
        provider.sync("plain", dest, progress=stop_after(3))
    left = list(dest.glob("*.parquet"))
    assert left
    for file in left:
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2])
    result = provider.sync("plain", dest, verify=True)
    assert result.fetched_files == result.added_files
    assert not {file.name for file in left} & data_files(dest).keys()


class FullDisk(Storage):
    """Has room for some files more, and for half of the one after."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self._lock = Lock()

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._take_room(path)
        super().write(path, data, overwrite=overwrite)

    def open_output(self, path: str) -> OutputFile:
        output = super().open_output(path)
        close = output.close

        def close_if_it_fits() -> None:
            self._take_room(path)
            close()

        output.close = close_if_it_fits  # type: ignore[method-assign]
        return output

    def _take_room(self, path: str) -> None:
        with self._lock:
            self.room -= 1
        if self.room < 0:
            raise OutOfSpaceError("the disk is full", path=path)


def test_wherever_the_disk_is_full_the_copy_stays_whole(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("advanced"), tmp_path / "copy"
    for room in range(100):
        disk = FullDisk(room)
        with suppress(OutOfSpaceError):
            provider.sync("advanced", dest, engine=engine_over(disk))
            break
        assert not (dest / "_delta_log" / f"{0:020d}.json").exists()
        shutil.rmtree(dest)
    assert 5 < room < 99
    assert texts_of(dest) == texts_of(path)
    write_more(path)
    with pytest.raises(OutOfSpaceError):
        provider.sync("advanced", dest, engine=engine_over(FullDisk(4)))
    assert texts_of(dest) == texts_of(path, synced_version(dest))
    assert provider.sync("advanced", dest, verify=True).source_version == snapshot(path).version


@pytest.mark.parametrize("history_shared", [True, False])
def test_urls_that_expire_meanwhile_are_renewed(tmp_path: Path, history_shared: bool) -> None:
    serving = providing(
        tmp_path / "provider", "orders", history_shared=history_shared, pre_signed_url_timeout_seconds=1
    )
    with serving as provider:
        path, dest = provider.path("orders"), tmp_path / "copy"
        tables.create(path, orders(0, 10), partition_by=["day"], properties=OWN["advanced"])
        for start in range(10, 80, 10):
            tables.append(path, orders(start, start + 10))
        tables.delete(path, "id % 5 = 1")
        for more in range(2):  # with more files than are fetched at once, so that some are fetched after the sleep
            provider.sync("orders", dest, verify=True, progress=sleeping_once(1.5))
            tables.overwrite(path, orders(more, 100))
        assert texts_of(dest) == texts_of(path, synced_version(dest))


def sleeping_once(seconds: float) -> object:
    slept: list[float] = []

    def sleep(done: int, total: int) -> None:
        if not slept:
            slept.append(seconds)
            time.sleep(seconds)

    return sleep


def test_versions_whose_files_the_provider_has_vacuumed_come_with_a_later_one(
    provider: Provider, tmp_path: Path
) -> None:
    path, dest = provider.path("plain"), tmp_path / "copy"
    provider.sync("plain", dest)
    write_more(path)
    tables.vacuum(path, retention=0, enforce_retention=False, dry_run=False)
    result = provider.sync("plain", dest, verify=True)
    assert result.source_version == 11
    assert 0 < result.commits < 7
    assert texts_of(dest) == texts_of(path)
    copied = {int(c.info["operationParameters"]["version"]): c.version for c in lakeport.scan(str(dest)).history()}
    for shared, version in copied.items():
        if shared > 8:
            assert texts_of(dest, version) == texts_of(path, shared)


def test_a_file_that_the_provider_has_lost_ends_the_sync_and_the_copy_stays(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("plain"), tmp_path / "copy"
    provider.sync("plain", dest)
    before = texts_of(dest)
    tables.append(path, orders(30, 40))
    newest = max(Path(path).rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    newest.unlink()
    with pytest.raises((MissingFileError, SharingError)):
        provider.sync("plain", dest)
    assert texts_of(dest) == before
    assert synced_version(dest) == 4


@pytest.mark.parametrize(
    ("damage", "said"), [(b"", "ends before|denied access"), (b"X", "does not end with a valid Parquet footer")]
)
def test_a_file_that_is_not_what_the_share_says_is_refused(
    provider: Provider, tmp_path: Path, damage: bytes, said: str
) -> None:
    for file in Path(provider.path("plain")).rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-1] + damage)
    with pytest.raises(lakeport.LakeportError, match=said):
        provider.sync("plain", tmp_path / "copy")
    assert not (tmp_path / "copy" / "_delta_log").exists()


# Looking before and after


def test_a_dry_run_says_what_a_run_does_and_writes_nothing(provider: Provider, tmp_path: Path) -> None:
    path, dest = provider.path("advanced"), tmp_path / "copy"
    planned = provider.sync("advanced", dest, dry_run=True)
    assert planned.dry_run
    assert not dest.exists()
    done = provider.sync("advanced", dest)
    tables.append(path, orders(30, 40))
    tables.optimize(path, purge=True)
    later = provider.sync("advanced", dest, dry_run=True)
    assert snapshot(dest).version == 0
    done_later = provider.sync("advanced", dest)
    for plan, run in ((planned, done), (later, done_later)):
        for name in ("source_version", "commits", "added_files", "removed_files", "fetched_files", "fetched_bytes"):
            assert getattr(plan, name) == getattr(run, name)


def test_verification_finds_a_file_that_was_cut_or_removed_and_a_full_sync_repairs_it(
    provider: Provider, tmp_path: Path
) -> None:
    dest = tmp_path / "copy"
    provider.sync("plain", dest, verify=True)
    file = Path(lakeport.scan(str(dest)).files()[0].path)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(SyncError, match="1 of the copy's files are missing"):
        provider.sync("plain", dest, verify=True)
    file.unlink()
    with pytest.raises(SyncError, match="pass full=True to fetch them again"):
        provider.sync("plain", dest, verify=True)
    repaired = provider.sync("plain", dest, verify=True, full=True)
    assert (repaired.fetched_files, repaired.removed_files) == (1, 1)


@pytest.mark.parametrize("table", OWN)
def test_verification_finds_a_byte_that_differs(provider: Provider, tmp_path: Path, table: str) -> None:
    dest = tmp_path / "copy"
    provider.sync(table, dest)
    for file in sorted([*dest.rglob("*.parquet"), *dest.rglob("deletion_vector*.bin")]):
        right = file.read_bytes()
        file.write_bytes(right[:40] + bytes([right[40] ^ 1]) + right[41:])
        with pytest.raises(
            (SyncError, CorruptTableError),
            match=r"damaged|the copy differs from the share: file contents differ",
        ):
            provider.sync(table, dest, verify=True)
        file.write_bytes(right)
    assert provider.sync(table, dest, verify=True).verified_files


def test_verification_finds_other_files(provider: Provider, tmp_path: Path) -> None:
    """The log of the copy was changed by hand: nothing else tells of it."""
    dest = tmp_path / "copy"
    provider.sync("plain", dest)
    commit = dest / "_delta_log" / f"{0:020}.json"
    lines = commit.read_text().splitlines(keepends=True)
    adds = [line for line in lines if line.startswith('{"add"')]
    commit.write_text("".join(line for line in lines if line != adds[0]))
    (dest / "_delta_log" / f"{0:020}.crc").unlink(missing_ok=True)
    with pytest.raises(SyncError, match="from the share: files in the copy or in the share, but not in both: 1;"):
        provider.sync("plain", dest, verify=True)


def test_what_is_no_shared_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a shared table"):
        lakeport.sync(str(tmp_path / "table"), str(tmp_path / "copy"))
