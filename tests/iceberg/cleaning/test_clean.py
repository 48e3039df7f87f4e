"""`clean` leaves what the retained snapshots need, exactly, and takes nothing that anybody else may need."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.engine import default_engine, engine_over
from lakeport.errors import ConversionError, MissingFileError
from lakeport.iceberg import convert
from lakeport.iceberg.cleaning import Cleaning, clean
from lakeport.iceberg.table.metadata import snapshots_by_version
from lakeport.iceberg.targets.target import PathTarget, Published
from lakeport.iceberg.verification.verify import verify
from lakeport.kernel.snapshot import Table

pytest.importorskip("pyiceberg")
NOW = timedelta(0)
DAY = 86_400_000
both_versions = pytest.mark.parametrize("format_version", [2, 3])


def published(root: str) -> Published:
    found = PathTarget(default_engine(), f"{root}/_iceberg").load()
    assert found is not None
    return found


def mirrored(root: str) -> list[int]:
    return sorted(snapshots_by_version(published(root).metadata))


def generated(root: str) -> set[str]:
    location = Path(root) / "_iceberg"
    return {str(path.relative_to(location)) for path in location.rglob("*") if path.is_file()}


def needed(root: str) -> set[str]:
    """What the snapshots of a mirror are made of, as pyiceberg reads them, and what tells of them."""
    from pyiceberg.manifest import ManifestContent
    from pyiceberg.table import StaticTable

    found = published(root)
    table = StaticTable.from_metadata(found.path)
    paths = {found.path, f"{root}/_iceberg/metadata/version-hint.text"}
    for snapshot in table.snapshots():
        paths.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            paths.add(manifest.manifest_path)
            if manifest.content == ManifestContent.DELETES:
                paths |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {path.removeprefix(f"{root}/_iceberg/") for path in paths}


def data_files(root: str) -> set[Path]:
    return {path for path in Path(root).rglob("*") if path.is_file() and "_iceberg" not in path.parts}


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = str(tmp_path / "t")
    rows = pa.table({"id": range(300), "p": [n % 3 for n in range(300)]})
    tables.create(root, rows, partition_by=["p"], properties={"delta.enableDeletionVectors": "true"})
    return root


def in_days(days: float) -> Any:
    """An engine whose clock is ahead."""
    return engine_over(default_engine().storage, lambda: int(default_engine().now() + days * DAY))


@both_versions
@pytest.mark.parametrize("rounds", [10, pytest.param(50, marks=pytest.mark.exhaustive(instead="ten rounds"))])
def test_after_rounds_of_delete_and_compact_exactly_the_needed_files_are_left(
    root: str, format_version: int, rounds: int
) -> None:
    cleaned = rounds * 3 // 5
    for number in range(rounds):
        tables.delete(root, f"id % 60 = {number}")
        tables.append(root, pa.table({"id": [number], "p": [number % 3]}))
        tables.optimize(root)
        convert(root, format_version=format_version)
        if number == cleaned:
            clean(root, retention=NOW, grace=NOW, dry_run=False)
    versions, before, data = mirrored(root), generated(root), data_files(root)
    assert versions == list(range((cleaned + 1) * 3, rounds * 3 + 1))
    found = clean(root, retention=NOW, grace=NOW, dry_run=False)
    assert [snapshot.version for snapshot in found.expired] == versions[:-1]
    assert mirrored(root) == versions[-1:]
    assert generated(root) == needed(root)
    assert before - generated(root) == set(found.files)
    assert data_files(root) == data
    assert verify(root, rows=True).is_equal


def test_a_dry_run_tells_what_would_go_and_changes_nothing(root: str) -> None:
    for number in range(3):
        tables.delete(root, f"id = {number}")
        convert(root)
    before, told = generated(root), clean(root, retention=NOW, grace=NOW)
    assert generated(root) == before
    assert (len(told.expired), told.deleted) == (2, False)
    sizes = {name: (Path(root) / "_iceberg" / name).stat().st_size for name in before}
    done = clean(root, retention=NOW, grace=NOW, dry_run=False)
    assert done == Cleaning(told.expired, told.files, told.bytes, True)
    assert told.bytes == sum(sizes[name] for name in told.files)
    assert generated(root) == needed(root)
    assert clean(root, retention=NOW, grace=NOW) == Cleaning((), (), 0, False)


def test_snapshots_that_were_the_latest_within_the_retention_stay(root: str) -> None:
    convert(root)
    for number in range(3):
        tables.delete(root, f"id = {number}")
        convert(root)
    assert clean(root).expired == ()
    assert clean(root, engine=in_days(6)).expired == ()
    assert [snapshot.version for snapshot in clean(root, engine=in_days(8)).expired] == [0, 1, 2]
    assert [s.reason for s in clean(root, retention="2 hours", engine=in_days(1)).expired] == ["retention"] * 3


def test_every_retained_snapshot_can_be_read_after_cleaning(root: str) -> None:
    convert(root)
    for number in range(6):
        tables.delete(root, f"id % 50 = {number}")
        convert(root)
    times = {version: s["timestamp-ms"] for version, s in snapshots_by_version(published(root).metadata).items()}
    engine = engine_over(default_engine().storage, lambda: times[4] + 1)
    done = clean(root, retention=NOW, grace=NOW, dry_run=False, engine=engine)
    assert [snapshot.version for snapshot in done.expired] == [0, 1, 2, 3]
    assert mirrored(root) == [4, 5, 6]
    assert all(verify(root, version=version, rows=True).is_equal for version in (4, 5, 6))


def test_snapshots_that_need_vacuumed_files_are_expired_whatever_the_retention(root: str) -> None:
    convert(root)
    tables.delete(root, "id < 30")
    tables.append(root, pa.table({"id": [1000], "p": [0]}))
    tables.optimize(root)
    tables.append(root, pa.table({"id": [1001], "p": [1]}))
    convert(root)
    tables.vacuum(root, retention=0, enforce_retention=False, dry_run=False)
    convert(root)
    done = clean(root, dry_run=False)
    assert [(s.version, s.reason) for s in done.expired] == [(version, "vacuumed") for version in (0, 1, 2)]
    assert all(verify(root, version=version, rows=True).is_equal for version in mirrored(root))
    assert {name for name in generated(root) if not name.endswith("json")} <= needed(root)


def test_a_tagged_snapshot_stays(root: str) -> None:
    first = convert(root)
    target = PathTarget(default_engine(), f"{root}/_iceberg")
    tag = {"action": "set-snapshot-ref", "ref-name": "kept", "type": "tag", "snapshot-id": first.snapshot_id}
    target.publish(published(root), published(root).metadata, [tag])
    for number in range(3):
        tables.delete(root, f"id = {number}")
        convert(root)
    clean(root, retention=NOW, grace=NOW, dry_run=False)
    assert mirrored(root) == [0, 3]
    assert generated(root) == needed(root)
    assert verify(root, version=0, rows=True).is_equal


def test_what_a_crashed_converter_left_goes_when_it_is_old(root: str) -> None:
    convert(root)
    location = Path(root) / "_iceberg"
    name = "11111111-2222-4333-8444-555555555555"
    left = {
        f"deletes/0123456789abcdef-{name}.parquet",
        f"metadata/{name}-m0.avro",
        f"metadata/.v2.metadata.json.{'0' * 32}.tmp",
    }
    for path in left:
        (location / path).parent.mkdir(exist_ok=True)
        (location / path).write_bytes(b"half")
    assert clean(root).files == ()
    assert set(clean(root, dry_run=False, engine=in_days(2)).files) == left
    assert generated(root) == needed(root)


def test_files_that_are_not_generated_stay(root: str) -> None:
    convert(root)
    location = Path(root) / "_iceberg"
    others = {
        "notes.txt",
        "metadata/notes.avro",
        "deletes/part-0.parquet",
        "data/11111111-2222-4333-8444-555555555555.parquet",
    }
    for path in others:
        (location / path).parent.mkdir(exist_ok=True)
        (location / path).write_bytes(b"mine")
    assert clean(root, retention=NOW, grace=NOW, dry_run=False).files == ()
    assert generated(root) == needed(root) | others


def test_a_mirror_in_the_directory_of_its_table_loses_nothing_of_the_table(root: str) -> None:
    convert(root, out=root)
    tables.delete(root, "id = 1")
    convert(root, out=root)
    files = {
        file.path for file in Table.for_path(default_engine(), root).latest_snapshot().scan_builder().build().files()
    }
    clean(root, out=root, retention=NOW, grace=NOW, dry_run=False)
    assert all(Path(path).exists() for path in files)
    assert verify(root, out=root, rows=True).is_equal


def test_a_retained_snapshot_that_cannot_be_read_stops_the_cleaning(root: str) -> None:
    convert(root)
    tables.delete(root, "id = 1")
    current = convert(root)
    [snapshot] = [s for s in published(root).metadata["snapshots"] if s["snapshot-id"] == current.snapshot_id]
    Path(snapshot["manifest-list"]).unlink()
    before = generated(root)
    with pytest.raises(MissingFileError):
        clean(root, retention=NOW, grace=NOW, dry_run=False)
    assert generated(root) == before


def test_without_a_mirror_there_is_nothing_to_clean(root: str) -> None:
    with pytest.raises(ConversionError, match="no mirror to clean"):
        clean(root)


@pytest.mark.parametrize("interval", ["soon", "-1 days", timedelta(days=-1)])
def test_an_interval_that_is_none_is_refused(root: str, interval: str | timedelta) -> None:
    with pytest.raises(ValueError, match="interval"):
        clean(root, retention=interval)


def test_a_mirror_in_a_catalog_is_verified_and_cleaned_there(root: str, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    place: dict[str, Any] = {"catalog": catalog, "table": "mirrors.t"}
    for number in range(3):
        tables.delete(root, f"id = {number}")
        convert(root, **place)
    done = clean(root, **place, retention=NOW, grace=NOW, dry_run=False)
    assert [snapshot.version for snapshot in done.expired] == [1, 2]
    table = catalog.load_table("mirrors.t")
    assert [snapshot.summary["lakeport.delta.version"] for snapshot in table.snapshots() if snapshot.summary] == ["3"]
    assert len(table.scan().to_arrow()) == 297
    assert verify(root, **place, rows=True).is_equal
    assert clean(root, **place, retention=NOW, grace=NOW) == Cleaning((), (), 0, False)
    catalog.close()


def test_cleaning_beside_two_running_converters_harms_nobody(root: str) -> None:
    convert(root)
    stop, failures = threading.Event(), []

    def repeat(work: Callable[[], object]) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            failures.append(error)

    works = [lambda: clean(root, retention=NOW, dry_run=False), lambda: convert(root)]
    threads = [threading.Thread(target=repeat, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    try:
        for number in range(25):
            tables.delete(root, f"id = {number}")
            if number % 6 == 5:
                tables.append(root, pa.table({"id": [number], "p": [0]}))
                tables.optimize(root)
            convert(root)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert verify(root, rows=True).is_equal
    clean(root, retention=NOW, grace=NOW, dry_run=False)
    assert generated(root) == needed(root)
    assert verify(root, rows=True).is_equal
