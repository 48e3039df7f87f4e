"""The unmodified Delta Sharing connector for Spark reads through the server: every shareable table of the shared set,
changes, streams, pages, URLs that have to be refreshed, and queries that are answered later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport import tables
from tests.acceptance.comparing import assert_same_rows
from tests.acceptance.real_tables import LARGE, Entry, change_cases, chosen, latest_rows, path_of, shared_name
from tests.interop.rows import read, spark_columns
from tests.interop.shareable import (
    OWN,
    SHAREABLE,
    beyond_parquet,
    content,
    moment,
    orders,
    times,
    write_appended,
)
from tests.interop.sharing_clients import ClientError, Read, SparkClient, Streamed, spark_client, write_profile
from tests.properties import FEED, MAPPED, VECTORS
from tests.rows import canonical
from tests.server.running import Running, running, sharing

# Rows that Spark does not find when it reads the table itself, either: those of an inline deletion vector of 34 bytes.
LOST = {"krs--cdf-table-with-dv": {(3, "delete", 5), (3, "insert", 6)}}
PAGES = {"spark.delta.sharing.queryPagination.enabled": "true", "spark.delta.sharing.maxFilesPerQueryRequest": "1"}


@dataclass(frozen=True)
class Shared:
    """Spark, and a server that shares with it."""

    spark: SparkClient
    server: Running
    profile: str
    folder: Path
    """Where the tables of our own are, and the audit log."""

    def read(self, table: str, query: str = "SELECT * FROM {t}", **options: str) -> Read:
        return Read(f"{self.profile}#{table}", query, options)

    def changes(self, table: str, start: int, end: int | None = None) -> Read:
        options = {"readChangeFeed": "true", "startingVersion": str(start), "responseFormat": _format(table)}
        return Read(f"{self.profile}#{table}", options=options | ({} if end is None else {"endingVersion": str(end)}))

    def stream(self, table: str, **options: str) -> Read:
        return Read(f"{self.profile}#{table}", options={"responseFormat": _format(table), **options}, stream=True)

    def rows(self, one: Read, settings: Mapping[str, str] | None = None) -> pa.Table:
        (answer,) = self.read_all(one, settings=settings)
        return answer.rows if isinstance(answer, Streamed) else answer

    def read_all(self, *reads: Read, settings: Mapping[str, str] | None = None) -> list[Any]:
        """As `SparkClient.read`, but a `ClientError` is raised."""
        answers = self.spark.read(*reads, settings=settings)
        for answer in answers:
            if isinstance(answer, ClientError):
                raise answer
        return answers

    def audit(self, table: str, operation: str) -> list[Entry]:
        """What the server noted of requests on a table."""
        lines = map(json.loads, (self.folder / "audit.log").read_text().splitlines())
        return [line for line in lines if (line["table"], line["operation"]) == (table, operation)]


def _format(table: str) -> str:
    """For changes and streams the connector does not find the format out."""
    return "parquet" if table.endswith("plain") else "delta"


@pytest.fixture(scope="module")
def spark_with_connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkClient]:
    with spark_client(tmp_path_factory.mktemp("sharing spark")) as spark:
        yield spark


@pytest.fixture(scope="module")
def shared(spark_with_connector: SparkClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared with spark")
    with running(content(folder), audit_log=str(folder / "audit.log")) as server:
        yield Shared(spark_with_connector, server, write_profile(server, folder), folder)


@pytest.fixture(scope="module")
def snapshots(shared: Shared) -> dict[str, Any]:
    """Every table of the shared set as Spark reads it, several at a time."""
    columns = {name: spark_columns(lakeport.scan(path_of(name)).snapshot.schema) for name in SHAREABLE}
    reads = [shared.read(shared_name(name), f"SELECT {columns[name]} FROM {{t}}") for name in SHAREABLE]
    return dict(zip(SHAREABLE, shared.spark.read(*reads), strict=True))


@chosen(lambda entry: entry["name"] in SHAREABLE)
def test_spark_reads_every_table_in_the_format_that_it_finds_out(snapshots: dict[str, Any], name: str) -> None:
    found = snapshots[name]
    if isinstance(found, ClientError):
        raise found
    if found.num_rows > LARGE:
        assert_same_rows(found, latest_rows(name))
    else:
        ours = read(lakeport.scan(path_of(name)))
        assert found.schema.names == ours.schema.names
        assert canonical(found) == canonical(ours)


def test_spark_reads_tables_in_the_format_that_it_asks_for(shared: Shared) -> None:
    """Some of them, for the sake of time."""
    names = [name for name in SHAREABLE[::15] if "decimal-dictionaries" not in name and "variant" not in name]
    kinds = [(name, kind) for name in names for kind in ("delta", "parquet")]
    reads = [shared.read(shared_name(name), responseFormat=kind) for name, kind in kinds]
    for (name, kind), found in zip(kinds, shared.spark.read(*reads), strict=True):
        if kind == "parquet" and beyond_parquet(name):
            assert isinstance(found, ClientError)
            assert min(beyond_parquet(name)) in str(found)
        else:
            assert isinstance(found, pa.Table), f"{name} as {kind}: {found}"
            assert canonical(found) == canonical(read(lakeport.scan(path_of(name)))), f"{name} as {kind}"


@pytest.fixture(scope="module")
def changes(shared: Shared) -> dict[str, Any]:
    """The changes of every range of the shared set as Spark reads them, by the table and the range."""
    ranges = {str(case.values): (case.values[0], case.values[1]) for case in change_cases("parquet")}
    reads = [shared.changes(shared_name(name), case["start"], case["end"]) for name, case in ranges.values()]
    return dict(zip(ranges, shared.spark.read(*reads), strict=True))


@pytest.mark.parametrize(("name", "case"), change_cases("parquet"))
def test_spark_reads_the_changes_of_every_table(changes: dict[str, Any], name: str, case: Entry) -> None:
    found = changes[str((name, case))]
    if isinstance(found, ClientError):
        raise found
    expected = pq.read_table(case["parquet"])
    if lost := LOST.get(name):
        rows = [row for row in expected.to_pylist() if tuple(row.values()) not in lost]
        assert len(rows) == expected.num_rows - len(lost)
        expected = pa.Table.from_pylist(rows, expected.schema)
    assert_same_rows(found.drop(["_commit_timestamp"]), expected)


# Tables of our own


def assert_same_changes(found: pa.Table, ours: pa.Table) -> None:
    """In the parquet format the connector has an order of its own, and gives commit timestamps as numbers."""
    assert sorted(found.schema.names) == sorted(ours.schema.names)
    if found.schema.field("_commit_timestamp").type == pa.int64():
        index = found.schema.get_field_index("_commit_timestamp")
        found = found.set_column(index, "_commit_timestamp", found.column(index).cast(pa.timestamp("ms", "UTC")))
    assert canonical(found.select(ours.schema.names).cast(ours.schema)) == canonical(ours)


@pytest.mark.parametrize("name", OWN)
def test_spark_reads_a_version_and_the_version_of_a_moment(shared: Shared, name: str) -> None:
    path, table = str(shared.folder / name), f"own.default.{name}"
    made = times(path)
    reads = [shared.read(table, versionAsOf=str(version)) for version in (0, 3)]
    reads += [shared.read(table, timestampAsOf=moment(made[version])) for version in (2, 4)]
    for version, found in zip((0, 3, 2, 4), shared.read_all(*reads), strict=True):
        assert canonical(found) == canonical(lakeport.scan(path).at(version=version).to_arrow()), f"version {version}"


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("where", ["day = '2026-01-01'", "id BETWEEN 21 AND 22", "day > '2026-01-01' AND id < 10"])
def test_a_filter_of_spark_leaves_files_out_on_the_server(shared: Shared, name: str, where: str) -> None:
    table = f"own.default.{name}"
    found = shared.rows(shared.read(table, f"SELECT * FROM {{t}} WHERE {where}"))
    ours = lakeport.scan(str(shared.folder / name))
    assert canonical(found) == canonical(ours.where(where).to_arrow())
    told = shared.audit(table, "queryTable")[-1]
    assert told["jsonPredicateHints"]
    assert 0 < told["files"] <= len(ours.where(where).files()) < len(ours.files())


@pytest.mark.parametrize("name", OWN)
def test_a_limit_of_spark_reaches_the_server(shared: Shared, name: str) -> None:
    table = f"own.default.{name}"
    found = shared.rows(shared.read(table, "SELECT * FROM {t} LIMIT 3"))
    assert found.num_rows == 3
    told = shared.audit(table, "queryTable")[-1]
    assert told["limitHint"] == 3
    assert told["files"] < len(lakeport.scan(str(shared.folder / name)).files())


@pytest.mark.parametrize("name", OWN)
def test_spark_reads_changes_of_every_kind(shared: Shared, name: str) -> None:
    path = str(shared.folder / name)
    since = moment(times(path)[3])
    table = f"own.default.{name}"
    by_version, by_time = shared.read_all(
        shared.changes(table, 1, 3),
        shared.read(table, readChangeFeed="true", startingTimestamp=since, responseFormat=_format(table)),
    )
    scan = lakeport.scan(path)
    assert_same_changes(by_version, scan.changes(1, 3).to_arrow())
    assert_same_changes(by_time, scan.changes(3).to_arrow())


def test_spark_reads_changes_across_the_beginning_of_deletion_vectors(shared: Shared, tmp_path: Path) -> None:
    path, table = str(tmp_path / "begun"), "own.default.begun"
    tables.create(path, orders(0, 10), properties=FEED, partition_by=["day"])
    tables.set_properties(path, VECTORS | MAPPED)
    tables.delete(path, "id % 5 = 3")
    with running(sharing({table: path}, history_shared=True)) as server:
        begun = replace(shared, server=server, profile=write_profile(server, tmp_path))
        assert_same_changes(begun.rows(begun.changes(table, 0)), lakeport.scan(path).changes(0).to_arrow())


def test_spark_reads_a_table_with_every_feature_and_its_changes(shared: Shared) -> None:
    path, table = str(shared.folder / "everything"), "own.default.everything"
    scan = lakeport.scan(path)
    versions = [3, 8, scan.version]
    ranges = [(1, 4), (5, 9)]
    reads = [shared.read(table, versionAsOf=str(version)) for version in versions]
    found = shared.read_all(*reads, *(shared.changes(table, *ends) for ends in ranges))
    for version, rows in zip(versions, found, strict=False):
        assert canonical(rows) == canonical(scan.at(version=version).to_arrow()), f"version {version}"
    for ends, rows in zip(ranges, found[len(versions) :], strict=True):
        assert_same_changes(rows, scan.changes(*ends).to_arrow())


# Streams


def test_a_stream_reads_files_some_at_a_time(shared: Shared) -> None:
    (found,) = shared.read_all(shared.stream("own.default.appended", maxFilesPerTrigger="3"))
    assert canonical(found.rows) == canonical(orders(0, 40))
    assert found.batches == 3


@pytest.mark.parametrize("versions", ["1", "2", "100"])
def test_a_stream_begins_at_a_version_and_asks_for_some_versions_at_a_time(shared: Shared, versions: str) -> None:
    table = "own.default.appended"
    before = len(shared.audit(table, "queryTable"))
    one = shared.stream(table, startingVersion="1", maxVersionsPerRpc=versions, maxFilesPerTrigger="2")
    assert canonical(shared.rows(one)) == canonical(orders(10, 40))
    asked = {(q.get("startingVersion"), q.get("endingVersion")) for q in shared.audit(table, "queryTable")[before:]}
    whole = {"1": {(1, 1), (2, 2), (3, 3)}, "2": {(1, 2), (3, 3)}, "100": {(1, 3)}}
    assert whole[versions] <= asked


def test_a_stream_goes_on_where_it_ended(shared: Shared, tmp_path: Path) -> None:
    path = tmp_path / "growing"
    write_appended(str(path))
    with running(sharing({"own.default.growing": path}, history_shared=True)) as server:
        growing = replace(shared, server=server, profile=write_profile(server, tmp_path))
        one = replace(growing.stream("own.default.growing"), checkpoint=str(tmp_path / "checkpoint"))
        first = growing.rows(one)
        tables.append(str(path), orders(40, 50))
        tables.append(str(path), orders(50, 60))
        second = growing.rows(one)
    assert canonical(first) == canonical(orders(0, 40))
    assert canonical(second) == canonical(orders(40, 60))


@pytest.mark.parametrize("name", OWN)
def test_a_stream_skips_commits_that_change_rows(shared: Shared, name: str) -> None:
    one = shared.stream(f"own.default.{name}", startingVersion="0", skipChangeCommits="true")
    assert canonical(shared.rows(one)) == canonical(orders(0, 30))


@pytest.mark.parametrize("name", OWN)
def test_a_stream_of_changes_is_that_of_the_table(shared: Shared, name: str) -> None:
    found = shared.rows(shared.stream(f"own.default.{name}", readChangeFeed="true", startingVersion="1"))
    assert_same_changes(found, lakeport.scan(str(shared.folder / name)).changes(1).to_arrow())


# Pages, the end of an answer, URLs that expire, answers that come later


@pytest.mark.parametrize("name", OWN)
def test_spark_reads_page_by_page(shared: Shared, name: str) -> None:
    path, table = str(shared.folder / name), f"own.default.{name}"
    scan = lakeport.scan(path)
    queries, listings = len(shared.audit(table, "queryTable")), len(shared.audit(table, "getTableChanges"))
    assert canonical(shared.rows(shared.read(table), PAGES)) == canonical(scan.to_arrow())
    assert len(shared.audit(table, "queryTable")) - queries >= len(scan.files()) > 1
    found = shared.rows(shared.changes(table, 1, 4), PAGES)
    assert_same_changes(found, scan.changes(1, 4).to_arrow())
    assert len(shared.audit(table, "getTableChanges")) - listings > 4


def test_a_stream_reads_page_by_page(shared: Shared) -> None:
    one = shared.stream("own.default.appended", startingVersion="0")
    assert canonical(shared.rows(one, PAGES)) == canonical(orders(0, 40))


@pytest.mark.parametrize("name", OWN)
def test_spark_is_told_the_end_of_an_answer(shared: Shared, name: str) -> None:
    settings = {"spark.delta.sharing.query.includeEndStreamAction": "true"}
    ours = lakeport.scan(str(shared.folder / name))
    one = shared.read(f"own.default.{name}")
    assert canonical(shared.rows(one, settings)) == canonical(ours.to_arrow())
    found = shared.rows(shared.changes(f"own.default.{name}", 1, 4), settings)
    assert_same_changes(found, ours.changes(1, 4).to_arrow())


@pytest.mark.parametrize("name", OWN)
def test_spark_refreshes_urls_that_expire_while_it_reads(
    spark_with_connector: SparkClient, shared: Shared, tmp_path: Path, name: str
) -> None:
    path = str(shared.folder / name)
    catalog = sharing({f"own.default.{name}": path}, history_shared=True)
    audit = tmp_path / "audit.log"
    with running(catalog, pre_signed_url_timeout_seconds=4, audit_log=str(audit)) as server:
        refreshing = Shared(spark_with_connector, server, write_profile(server, tmp_path), tmp_path)
        one = replace(refreshing.read(f"own.default.{name}"), pause=5)
        found = refreshing.rows(one, {"spark.sql.files.maxPartitionBytes": "1000"})
        assert canonical(found) == canonical(lakeport.scan(path).to_arrow())
        assert len(refreshing.audit(f"own.default.{name}", "queryTable")) > 1


@pytest.mark.parametrize("name", OWN)
def test_spark_waits_for_an_answer_that_comes_later(
    spark_with_connector: SparkClient, shared: Shared, tmp_path: Path, name: str
) -> None:
    path = str(shared.folder / name)
    settings = {
        "spark.delta.sharing.network.useAsyncQuery": "true",
        "spark.delta.sharing.network.asyncQueryRetryInterval": "50",
    }
    catalog = sharing({f"own.default.{name}": path}, history_shared=True)
    with running(catalog, async_query_after_seconds=0, audit_log=str(tmp_path / "audit.log")) as server:
        waiting = Shared(spark_with_connector, server, write_profile(server, tmp_path), tmp_path)
        for more in ({}, PAGES):
            found = waiting.rows(waiting.read(f"own.default.{name}"), settings | more)
            assert canonical(found) == canonical(lakeport.scan(path).to_arrow())
        asked, polled = (waiting.audit(f"own.default.{name}", one) for one in ("queryTable", "getQuery"))
    assert len(asked) >= 2
    assert len(polled) >= 2
