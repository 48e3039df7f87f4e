"""Mirrors in catalogs: registered once, then kept up to date by commits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

import lakeport
from lakeport import iceberg, tables
from lakeport.errors import ConversionError
from lakeport.iceberg import Difference
from lakeport.iceberg.delta.kept_version import KEPT_VERSION
from tests.iceberg.changing import change_in_all_ways, numbers, replace_table
from tests.iceberg.readers import Reader, assert_mirrors, canonical, snapshots_of
from tests.iceberg.rest_server import rest_server
from tests.properties import VECTORS

NAME = "sales.orders"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    found = SqlCatalog("test", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=str(tmp_path / "warehouse"))
    yield found
    found.engine.dispose()


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    tables.create(path, numbers(0, 100), partition_by=["g"], properties=VECTORS)
    return path


def test_a_table_of_a_catalog_follows_the_delta_table(reader: Reader, catalog: Catalog, table: str) -> None:
    first = iceberg.convert(table, catalog=catalog, table=NAME)
    assert first.kind == "full"
    change_in_all_ways(table)
    conversion = iceberg.convert(table, catalog=catalog, table=NAME)
    assert (conversion.kind, conversion.versions) == ("incremental", tuple(range(1, 10)))
    loaded = catalog.load_table(NAME)
    assert loaded.metadata_location == conversion.metadata_location
    assert canonical(loaded.scan().to_arrow()) == canonical(lakeport.scan(table).to_arrow())
    assert_mirrors(reader, table, conversion, list(range(10)))
    assert iceberg.convert(table, catalog=catalog, table=NAME).kind == "none"


def test_columns_keep_their_ids_in_a_catalog(reader: Reader, catalog: Catalog, tmp_path: Path) -> None:
    path = str(tmp_path / "mapped")
    tables.create(path, numbers(0, 5), properties={"delta.columnMapping.mode": "name"})
    iceberg.convert(path, catalog=catalog, table=NAME)
    tables.rename_column(path, "name", "title")
    tables.add_columns(path, {"name": "long"})
    tables.append(path, lakeport.scan(path).to_arrow())
    conversion = iceberg.convert(path, catalog=catalog, table=NAME)
    assert_mirrors(reader, path, conversion, [0, 1, 2, 3])


def test_a_catalog_can_be_given_by_its_properties(catalog: Catalog, table: str) -> None:
    properties = {"name": "test", "type": "sql", **catalog.properties}
    conversion = iceberg.convert(table, catalog=properties, table=NAME)
    assert catalog.load_table(NAME).metadata_location == conversion.metadata_location


def test_converters_that_run_at_once_make_one_history_in_a_catalog(catalog: Catalog, table: str) -> None:
    change_in_all_ways(table)

    def run(_: int) -> None:
        own = SqlCatalog("test", **catalog.properties)
        iceberg.convert(table, catalog=own, table=NAME, since=0)
        own.engine.dispose()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    conversion = iceberg.convert(table, catalog=catalog, table=NAME)
    assert (conversion.kind, sorted(snapshots_of(conversion))) == ("none", list(range(10)))


# What others do to a mirror


@pytest.mark.parametrize("more", [0, 1])
def test_a_mirror_that_was_rolled_back_is_made_whole_again(catalog: Catalog, table: str, more: int) -> None:
    first = iceberg.convert(table, catalog=catalog, table=NAME)
    tables.append(table, numbers(100, 110))
    mirrored = iceberg.convert(table, catalog=catalog, table=NAME)
    catalog.load_table(NAME).manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    found = iceberg.verify(table, catalog=catalog, table=NAME)
    assert (found.version, found.snapshot_id) == (1, first.snapshot_id)
    assert found.differences[0] == Difference(
        mirrored.location, "readers see a snapshot of version 0, the mirror should show version 1"
    )
    assert_rebuilt(catalog, table, 1, more)


@pytest.mark.parametrize("more", [0, 1])
def test_rows_that_another_appended_to_a_mirror_go(catalog: Catalog, table: str, more: int) -> None:
    mirrored = iceberg.convert(table, catalog=catalog, table=NAME)
    catalog.load_table(NAME).append(numbers(500, 501))
    found = iceberg.verify(table, catalog=catalog, table=NAME)
    assert found.differences[0] == Difference(
        mirrored.location, "readers see a snapshot that Lakeport did not make, the mirror should show version 0"
    )
    assert found.differences[1].what == "the mirror has a file that the table does not have"
    assert_rebuilt(catalog, table, 0, more)


def assert_rebuilt(catalog: Catalog, table: str, version: int, more: int) -> None:
    """So many versions later, the mirror is made anew in one snapshot."""
    for _ in range(more):
        tables.append(table, numbers(110, 120))
    conversion = iceberg.convert(table, catalog=catalog, table=NAME)
    assert (conversion.kind, conversion.versions) == ("full", (version + more,))
    assert_same_rows(catalog, table)


def assert_same_rows(catalog: Catalog, table: str) -> None:
    rows = catalog.load_table(NAME).scan().to_arrow()
    assert canonical(rows) == canonical(lakeport.scan(table).to_arrow())
    assert iceberg.verify(table, catalog=catalog, table=NAME, rows=True).is_equal
    assert iceberg.convert(table, catalog=catalog, table=NAME).kind == "none"


# Mirrors of one table side by side


def test_mirrors_of_one_table_have_folders_of_their_own_that_cleaning_and_vacuum_leave_alone(
    catalog: Catalog, table: str
) -> None:
    places: list[dict[str, Any]] = [{}, {"catalog": catalog, "table": NAME}, {"catalog": catalog, "table": "sales.b"}]
    locations = [iceberg.convert(table, **place).location for place in places]
    assert locations == [f"{table}/{name}" for name in ("_iceberg", "_iceberg-sales.orders", "_iceberg-sales.b")]
    tables.delete(table, "id = 1")
    for place in places:
        iceberg.convert(table, **place)
    for place in places:
        iceberg.clean(table, **place, retention="0 seconds", grace="0 seconds", dry_run=False)
    tables.vacuum(table, retention=0, enforce_retention=False, dry_run=False)
    assert all(iceberg.verify(table, **place, rows=True).is_equal for place in places)


def test_a_name_that_no_folder_can_have_needs_a_directory(catalog: Catalog, table: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pass a directory"):
        iceberg.convert(table, catalog=catalog, table="sales.a/b")
    out = str(tmp_path / "mirror")
    assert iceberg.convert(table, catalog=catalog, table="sales.a/b", out=out).location == out


# REST, and refusals


@pytest.mark.parametrize("version", [2, 3])
def test_a_rest_catalog_takes_both_versions(reader: Reader, table: str, version: int) -> None:
    change_in_all_ways(table)
    with rest_server() as server:
        with RestCatalog("rest", uri=server.url) as catalog:
            first = iceberg.convert(table, catalog=catalog, table=NAME, format_version=version)
            tables.delete(table, "id % 11 = 1")
            tables.append(table, numbers(200, 210))
            conversion = iceberg.convert(table, catalog=catalog, table=NAME)
        assert len(server.commits) == 1
        assert sum(KEPT_VERSION in update.get("updates", ()) for update in server.commits[0]["updates"]) == 1
    assert (first.kind, conversion.kind, conversion.format_version) == ("full", "incremental", version)
    assert_mirrors(reader, table, conversion, [9, 10, 11])


def test_who_is_overtaken_in_a_rest_catalog_begins_again(table: str) -> None:
    with rest_server() as server, RestCatalog("rest", uri=server.url) as catalog:
        iceberg.convert(table, catalog=catalog, table=NAME)
        tables.delete(table, "id % 11 = 1")
        overtaken: list[int] = []

        def overtake(version: int, latest: int) -> None:
            if not overtaken:
                overtaken.append(version)
                iceberg.convert(table, catalog=catalog, table=NAME)

        conversion = iceberg.convert(table, catalog=catalog, table=NAME, progress=overtake)
        assert (conversion.kind, overtaken, len(server.commits)) == ("none", [1], 1)


def test_version_three_is_refused_where_the_client_cannot_write_it(catalog: Catalog, table: str) -> None:
    with pytest.raises(ConversionError, match="SqlCatalog") as caught:
        iceberg.convert(table, catalog=catalog, table=NAME, format_version=3)
    assert caught.value.reason == "format version"
    assert not list(Path(table).glob("_iceberg*"))


def test_a_replaced_table_is_one_more_snapshot_of_a_catalog(reader: Reader, catalog: Catalog, table: str) -> None:
    iceberg.convert(table, catalog=catalog, table=NAME)
    former = catalog.load_table(NAME).metadata.table_uuid
    replace_table(table, pa.table({"name": [1, 2, 3], "other": ["x", "y", "z"]}), ["other"])
    conversion = iceberg.convert(table, catalog=catalog, table=NAME)
    assert (conversion.kind, catalog.load_table(NAME).metadata.table_uuid) == ("incremental", former)
    assert_mirrors(reader, table, conversion, [0, 1, 2])
    assert_same_rows(catalog, table)


def test_a_table_that_was_made_anew_is_followed_in_one_step(reader: Reader, catalog: Catalog, table: str) -> None:
    assert_follows(reader, catalog, table)


def test_a_table_that_was_made_anew_is_followed_in_a_rest_catalog(reader: Reader, table: str) -> None:
    with rest_server() as server, RestCatalog("rest", uri=server.url) as catalog:
        assert_follows(reader, catalog, table)
        assert len(server.commits) == 3  # and none to drop it


def assert_follows(reader: Reader, catalog: Catalog, table: str) -> None:
    """Another table, with other columns, takes the place of the former; the catalog has a table all the time."""
    iceberg.convert(table, catalog=catalog, table=NAME)
    tables.append(table, numbers(100, 110))
    iceberg.convert(table, catalog=catalog, table=NAME)
    former = catalog.load_table(NAME).metadata
    shutil.rmtree(Path(table) / "_delta_log")
    tables.create(table, pa.table({"name": [1, 2, 3], "other": ["x", "y", "z"]}))
    conversion = iceberg.convert(table, catalog=catalog, table=NAME)
    assert (conversion.kind, conversion.versions) == ("full", (0,))
    latest = catalog.load_table(NAME).metadata
    assert latest.table_uuid == former.table_uuid
    assert [snapshot.snapshot_id for snapshot in latest.snapshots] == [conversion.snapshot_id]
    tables.append(table, pa.table({"name": [4], "other": ["w"]}))
    conversion = iceberg.convert(table, catalog=catalog, table=NAME)
    assert conversion.kind == "incremental"
    assert_mirrors(reader, table, conversion, [0, 1])
    assert_same_rows(catalog, table)


def test_a_mirror_in_a_catalog_follows_a_table_that_moves(catalog: Catalog, table: str, tmp_path: Path) -> None:
    place: dict[str, Any] = {"catalog": catalog, "table": NAME, "out": str(tmp_path / "mirror")}
    iceberg.convert(table, **place)
    moved = str(Path(table).rename(tmp_path / "moved"))
    assert iceberg.convert(moved, **place).kind == "full"
    assert iceberg.verify(moved, rows=True, **place).is_equal


def test_a_table_whose_metadata_is_gone_says_so(catalog: Catalog, table: str, tmp_path: Path) -> None:
    iceberg.convert(table, catalog=catalog, table=NAME)
    moved = Path(table).rename(tmp_path / "moved")
    with pytest.raises(ConversionError, match="is missing: drop the table from the catalog") as caught:
        iceberg.convert(str(moved), catalog=catalog, table=NAME)
    assert caught.value.reason == "metadata gone"
