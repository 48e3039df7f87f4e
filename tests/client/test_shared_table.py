"""Shared tables through our server: the rows are those of the same table by its path, in both formats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport import tables
from lakeport.client.rest import SharingServer
from lakeport.errors import LakeportError, SharingError, UnsupportedFeatureError
from tests.client.reading import frame_of, rows_of, server_at
from tests.server.running import Running, running, sharing
from tests.test_acceptance import (
    BY_NAME,
    MANIFEST,
    TABLES,
    Entry,
    assert_expected,
    assert_same_rows,
    change_cases,
    chosen,
    has_rows,
    path_of,
)

NUMBERS = {entry["name"]: number for number, entry in enumerate(MANIFEST)}
MANY = 40
"""Of tables with more versions only some are read."""
EVERYTHING = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.columnMapping.mode": "name",
}


def is_shareable(entry: Entry) -> bool:
    return has_rows(entry) and "needs" not in entry["expected"]


def name_of(table: str) -> str:
    return f"all.of.t{NUMBERS[table]}"


@pytest.fixture(scope="module")
def server(shared_tables: Path) -> Iterator[Running]:
    content = sharing({name_of(name): path_of(name) for name in NUMBERS}, history_shared=True)
    with running(content, delta_table_cache_size=5) as started:
        yield started


@pytest.fixture(scope="module", params=["delta", "parquet"])
def client(server: Running, request: pytest.FixtureRequest) -> Iterator[SharingServer]:
    with server_at(server.endpoint, formats=(request.param,)) as opened:
        yield opened


@contextmanager
def but_in_parquet(client: SharingServer) -> Iterator[None]:
    """Lets pass that a table cannot be told in the parquet format. In the delta format all can."""
    try:
        yield
    except SharingError as error:
        if error.code != "UNSUPPORTED_OPERATION" or client.formats != ("parquet",):
            raise


@pytest.mark.shared
@chosen(is_shareable)
def test_a_shared_table_has_the_rows_that_are_expected(client: SharingServer, name: str) -> None:
    frame = frame_of(client, name_of(name))
    with but_in_parquet(client):
        found = frame.to_arrow()
        assert frame.version == BY_NAME[name]["state"]["version"]
        assert_expected(name, found, BY_NAME[name]["expected"])
        assert frame.count() == found.num_rows
        assert frame.schema.equals(found.schema)


@pytest.mark.shared
@chosen(is_shareable)
def test_every_version_is_the_one_of_the_path(client: SharingServer, name: str) -> None:
    shared, table = frame_of(client, name_of(name)), lakeport.scan(path_of(name))
    latest = BY_NAME[name]["state"]["version"]
    for version in range(latest) if latest < MANY else sorted({0, 1, 2, latest // 2, latest - 1}):
        try:
            expected = table.at(version=version).to_arrow()
        except LakeportError:  # its log, or its files, are not there any more
            with pytest.raises(LakeportError):
                shared.at(version=version).to_arrow()
            continue
        with but_in_parquet(client):
            at = shared.at(version=version)
            assert_same_rows(at.to_arrow(), expected)
            assert at.version == version


@pytest.mark.shared
@pytest.mark.parametrize(("name", "case"), change_cases("parquet"))
def test_a_change_feed_has_the_rows_that_are_expected(client: SharingServer, name: str, case: Entry) -> None:
    with but_in_parquet(client):
        found = frame_of(client, name_of(name)).changes(case["start"], case["end"]).to_arrow()
        assert_same_rows(found.drop(["_commit_timestamp"]), pq.read_table(TABLES / case["parquet"]))
        mine = lakeport.scan(path_of(name)).changes(case["start"], case["end"]).to_arrow()
        times = ["_commit_version", "_commit_timestamp"]
        assert set(rows_of(found.select(times))) == set(rows_of(mine.select(times)))


# Tables of our own.


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine versions, with deleted, updated and merged rows."""
    path = tmp_path_factory.mktemp("own") / "orders"
    for number in range(5):
        rows = pa.table({"id": range(number * 20, number * 20 + 20), "day": [f"2026-01-0{1 + number % 3}"] * 20})
        if number:
            tables.append(str(path), rows)
        else:
            tables.create(str(path), rows, partition_by=["day"], properties=EVERYTHING)
    tables.delete(str(path), "id % 7 = 3")
    tables.update(str(path), {"day": "'2026-02-01'"}, "id < 4")
    tables.delete(str(path), "id > 90")
    tables.optimize(str(path))
    return path


@pytest.fixture(scope="module")
def own(orders: Path) -> Iterator[SharingServer]:
    with (
        running(sharing({"sales.eu.orders": orders}, history_shared=True)) as started,
        server_at(started.endpoint) as opened,
    ):
        yield opened


def test_columns_filters_and_limits_are_those_of_the_path(own: SharingServer, orders: Path) -> None:
    shared, local = frame_of(own, "sales.eu.orders"), lakeport.scan(str(orders))
    for condition in ("id = 5", "id > 50 AND day = '2026-01-02'", "day IS NULL", "id % 2 = 0 OR day < '2026-01-02'"):
        assert rows_of(shared.where(condition).to_arrow()) == rows_of(local.where(condition).to_arrow())
        assert shared.where(condition).count() == local.where(condition).count()
    assert rows_of(shared.select("day").to_arrow()) == rows_of(local.select("day").to_arrow())
    assert shared.limit(7).to_arrow().num_rows == 7
    assert shared.where("id > 50").limit(3).to_arrow().num_rows == 3
    assert shared.limit(1_000).count() == local.count()


def test_each_version_and_each_range_of_changes_is_that_of_the_path(own: SharingServer, orders: Path) -> None:
    shared, local = frame_of(own, "sales.eu.orders"), lakeport.scan(str(orders))
    for version in range(local.version + 1):
        assert rows_of(shared.at(version=version).to_arrow()) == rows_of(local.at(version=version).to_arrow())
        for end in range(version, local.version + 1):
            mine, theirs = local.changes(version, end), shared.changes(version, end)
            assert rows_of(theirs.to_arrow()) == rows_of(mine.to_arrow())


def test_all_views_of_a_frame_are_of_one_version(own: SharingServer, orders: Path, tmp_path: Path) -> None:
    path = tmp_path / "growing"
    tables.create(str(path), {"id": [1, 2]})
    with running(sharing({"a.b.growing": path})) as started, server_at(started.endpoint) as client:
        frame = frame_of(client, "a.b.growing")
        assert frame.count() == 2
        tables.append(str(path), {"id": [3]})
        assert sorted(frame.where("id > 0").to_arrow().column("id").to_pylist()) == [1, 2]
        assert frame.limit(10).count() == 2
        assert frame_of(client, "a.b.growing").count() == 3


def test_the_history_of_a_shared_table_is_not_told(own: SharingServer) -> None:
    with pytest.raises(UnsupportedFeatureError, match="does not tell the history"):
        frame_of(own, "sales.eu.orders").history()
