"""Real tables of other implementations: rows, files, errors, time travel and skipping are what a right reader gives."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache, reduce
from itertools import islice
from operator import and_
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import (
    ChangeFeedError,
    UnknownColumnError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, col
from lakeport.kernel.schema import format_path
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.values import python_value
from lakeport.testing.builder import read, scan_batches
from tests.acceptance.comparing import assert_expected, assert_same_rows, with_json_variants
from tests.acceptance.real_tables import (
    BY_NAME,
    ENGINE,
    ERRORS,
    ODD_CHECKPOINT,
    REFUSED,
    Entry,
    change_cases,
    changes_of,
    chosen,
    has_rows,
    has_variants,
    is_planned,
    latest_rows,
    path_of,
    range_id,
    table_of,
)
from tests.acceptance.skipping import case_id, comparisons, names_unknown_column, skipping_cases, value_of
from tests.conftest import SHARED
from tests.engine.duckdb_engine import duckdb_engine
from tests.engine.filtering_engines import FILTERING
from tests.engine.plain_engine import plain_engine

MAX_BATCHES = 10_000
"""Tables of a million rows are not read to their end in batches of one row."""


MAX_ROWS_FILTERED = 100_000


def file_count(snapshot: Snapshot, predicate: Expression | None = None) -> int:
    builder = snapshot.scan_builder()
    return len(list((builder if predicate is None else builder.with_filter(predicate)).build().files()))


@chosen(has_rows)
def test_the_latest_version_has_the_rows_that_are_expected(name: str) -> None:
    assert_expected(name, latest_rows(name), BY_NAME[name]["expected"])


@chosen(has_rows)
@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_the_rows_do_not_depend_on_the_batch_size(name: str, batch_size: int) -> None:
    scan = table_of(name).latest_snapshot().scan_builder().build()
    batches = list(islice(scan_batches(ENGINE, scan, batch_size), MAX_BATCHES))
    assert all(batch.num_rows <= batch_size for batch in batches)
    found = pa.Table.from_batches(batches, scan.scan_state.arrow_schema).combine_chunks()
    whole = latest_rows(name)
    if len(batches) < MAX_BATCHES:
        assert found.num_rows == whole.num_rows
    assert_same_rows(found, whole.slice(0, found.num_rows))


@chosen(lambda entry: has_rows(entry) and not has_variants(entry))  # DuckDB has no bytes of variants
@pytest.mark.parametrize("engine", [duckdb_engine(), plain_engine()], ids=["duckdb", "plain"])
def test_the_rows_do_not_depend_on_the_engine(name: str, engine: Engine) -> None:
    assert_same_rows(read(table_of(name, engine=engine).latest_snapshot()), latest_rows(name))


@chosen(lambda entry: entry.get("expected_versions") and entry["name"] not in REFUSED)
def test_every_version_has_the_rows_that_are_expected(name: str) -> None:
    for version, expectation in BY_NAME[name]["expected_versions"].items():
        snapshot = table_of(name).snapshot_at_version(int(version))
        assert snapshot.version == int(version)
        if "parquet" not in expectation and int(version) == BY_NAME[name]["state"]["version"]:
            expectation = BY_NAME[name]["expected"]
        assert_expected(name, read(snapshot), expectation)


@chosen(is_planned)
def test_the_latest_version_has_as_many_files_as_expected(name: str) -> None:
    entry = BY_NAME[name]
    snapshot = table_of(name).latest_snapshot()
    assert file_count(snapshot) == entry["expected"].get("active_files", entry["state"]["active_files"])
    assert snapshot.version == BY_NAME[name]["state"]["version"] or "needs" in entry["expected"]


@chosen(lambda entry: entry["expected"]["kind"] == "error")
def test_what_cannot_be_read_is_refused_by_the_type_of_error(name: str) -> None:
    expected = ERRORS[BY_NAME[name]["expected"]["error_class"]]
    with pytest.raises(expected) as caught:
        read(table_of(name).latest_snapshot())
    assert path_of(name) in str(caught.value)


@pytest.mark.shared
@pytest.mark.parametrize(("name", "feature"), list(REFUSED.items()))
def test_an_unknown_reader_feature_is_refused_by_its_name(name: str, feature: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        table_of(name).latest_snapshot()
    assert caught.value.features == (feature,)


# Time travel


@pytest.mark.shared
def test_a_timestamp_finds_the_version_that_was_the_latest_then(tmp_path: Path) -> None:
    name = "golden--time-travel-start-start20"
    times = {int(v): ms for v, ms in BY_NAME[name]["setup"]["mtimes"].items()}
    copy = copy_table(name, tmp_path)
    for version, ms in times.items():
        os.utime(copy / "_delta_log" / f"{version:020d}.json", ns=(ms * 1_000_000, ms * 1_000_000))
    table = table_of(name, str(copy))
    assert {v: table.snapshot_at_version(v).timestamp for v in times} == times
    assert table.snapshot_at_timestamp(times[0]).version == 0
    assert table.snapshot_at_timestamp(times[1] - 1).version == 0
    assert table.snapshot_at_timestamp(times[1]).version == 1
    assert table.snapshot_at_timestamp(datetime.fromtimestamp(times[0] / 1000, UTC)).version == 0
    with pytest.raises(VersionNotFoundError, match="earlier"):
        table.snapshot_at_timestamp(times[0] - 1)
    with pytest.raises(VersionNotFoundError, match="later"):
        table.snapshot_at_timestamp(times[1] + 1)


@pytest.mark.shared
def test_in_commit_timestamps_are_the_times_of_the_versions() -> None:
    table = table_of("derived--x-ict-from-start")
    for version in range(4):
        assert table.snapshot_at_version(version).timestamp == 1_700_000_000_000 + version * 1000
        assert table.snapshot_at_timestamp(1_700_000_000_000 + version * 1000).version == version
    history = list(table.latest_snapshot().history())
    assert [(c.version, c.timestamp) for c in history] == [(v, 1_700_000_000_000 + v * 1000) for v in (3, 2, 1, 0)]


@pytest.mark.shared
def test_versions_that_are_cleaned_up_are_not_found() -> None:
    table = table_of("derived--x-truncated-log")
    for version in [*range(10), 15]:
        with pytest.raises(VersionNotFoundError) as caught:
            table.snapshot_at_version(version)
        assert (caught.value.version, caught.value.earliest, caught.value.latest) == (version, 10, 14)


# Catalogs, templates


@chosen(lambda entry: "needs" in entry["expected"])
def test_a_catalog_managed_table_is_refused_without_its_catalog(name: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        Table.for_path(ENGINE, path_of(name)).latest_snapshot()
    assert caught.value.features == ("catalogManaged",)


@chosen(lambda entry: "needs" in entry["expected"])
def test_a_catalog_managed_table_has_the_versions_that_the_catalog_vouches_for(name: str) -> None:
    table = table_of(name)
    latest = table.latest_snapshot()
    assert (latest.version, latest.timestamp) == (2, 1749830881799)
    assert [table.snapshot_at_version(v).timestamp for v in (0, 1)] == [1749830855993, 1749830871085]
    with pytest.raises(ValueError, match="ratified"):
        table.snapshot_at_version(3)


@pytest.mark.shared
def test_a_deletion_vector_lies_in_a_folder_with_special_characters(tmp_path: Path) -> None:
    copy = copy_table("spark--table-with-dv-special-char", tmp_path)
    commit = copy / "_delta_log" / f"{0:020d}.json"
    folder = quote(str(copy / "folder&with%special char"))
    commit.write_text(commit.read_text().replace("{{FOLDER_WITH_SPECIAL_CHAR}}", folder))
    found = read(Table.for_path(ENGINE, str(copy)).latest_snapshot())
    assert found.num_rows == 5
    assert set(found.column("id").to_pylist()) < set(range(10))


# What only helps may be missing


def copy_table(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(path_of(name), tmp_path / "table"))


def has_all_commits(entry: Entry) -> bool:
    versions = entry.get("versions") or {}
    return versions.get("first") == 0 and versions["n_commits"] == versions["last"] + 1


def remove_files(table: Path, pattern: str) -> None:
    for file in (table / "_delta_log").glob(pattern):
        file.unlink()


@chosen(lambda e: has_rows(e) and has_all_commits(e) and e["log"]["checkpoints"] and e["name"] != ODD_CHECKPOINT)
def test_the_rows_are_the_same_without_checkpoints(name: str, tmp_path: Path) -> None:
    copy = copy_table(name, tmp_path)
    remove_files(copy, "*.checkpoint*")
    assert_same_rows_as_latest(name, copy)


@chosen(lambda e: has_rows(e) and e["log"]["last_checkpoint"])
def test_the_rows_are_the_same_without_a_hint(name: str, tmp_path: Path) -> None:
    copy = copy_table(name, tmp_path)
    remove_files(copy, "_last_checkpoint")
    assert_same_rows_as_latest(name, copy)


@chosen(lambda e: has_rows(e) and e["log"]["crc"])
def test_the_rows_are_the_same_without_checksums(name: str, tmp_path: Path) -> None:
    copy = copy_table(name, tmp_path)
    remove_files(copy, "*.crc")
    assert_same_rows_as_latest(name, copy)


@chosen(lambda e: has_rows(e) and e["log"]["compacted"])
def test_the_rows_are_the_same_without_compactions(name: str, tmp_path: Path) -> None:
    copy = copy_table(name, tmp_path)
    remove_files(copy, "*.compacted.json")
    assert_same_rows_as_latest(name, copy)


@pytest.mark.shared
def test_a_compaction_stands_for_the_commits_that_it_replaces(tmp_path: Path) -> None:
    copy = copy_table("derived--x-log-compaction", tmp_path)
    for version in (1, 2):
        remove_files(copy, f"{version:020d}.json")
    assert_same_rows_as_latest("derived--x-log-compaction", copy)


def assert_same_rows_as_latest(name: str, copy: Path) -> None:
    snapshot = table_of(name, str(copy)).latest_snapshot()
    assert_same_rows(with_json_variants(read(snapshot)), with_json_variants(latest_rows(name)))


# State other than files


@chosen(lambda e: e.get("state") and e["name"] not in REFUSED and (e["state"]["txn"] or e["state"]["domain_metadata"]))
def test_transactions_and_domains_are_those_of_the_newest_actions(name: str) -> None:
    state, snapshot = BY_NAME[name]["state"], table_of(name).latest_snapshot()
    assert {app: snapshot.transaction_version(app) for app in state["txn"]} == state["txn"]
    assert snapshot.transaction_version("nonExistentAppId") is None
    assert snapshot.domain_metadata == state["domain_metadata"]


@pytest.mark.shared
def test_the_newest_protocol_and_metadata_count() -> None:
    snapshot = table_of("golden--log-replay-latest-metadata-protocol").latest_snapshot()
    assert snapshot.schema.names == ("col1", "col2")
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (3, 7)


@pytest.mark.shared
def test_a_percent_encoded_path_is_decoded_once() -> None:
    snapshot = table_of("golden--log-replay-special-characters-b").latest_snapshot()
    assert [Path(f.path).name for f in snapshot.scan_builder().build().files()] == ["special p@#h"]


# Skipping


def to_expression(predicate: Entry) -> Expression:
    return reduce(and_, map(_compared, comparisons(predicate)))


def _compared(comparison: Entry) -> Expression:
    column, value = col(comparison["column"]), value_of(comparison)
    if comparison["op"].startswith("is"):
        return column.is_null() if comparison["op"] == "is null" else column.is_not_null()
    build = {"=": column == value, ">": column > value, ">=": column >= value, "<": column < value}
    return {**build, "<=": column <= value}[comparison["op"]]


@pytest.mark.shared
@pytest.mark.parametrize("case", skipping_cases(), ids=case_id)
def test_as_many_files_remain_after_skipping_as_expected(case: Entry) -> None:
    version = case.get("version")
    table = table_of(case["table"])
    snapshot = table.latest_snapshot() if version is None else table.snapshot_at_version(version)
    predicate = None if case["predicate"] is None else to_expression(case["predicate"])
    if names_unknown_column(case):
        with pytest.raises(UnknownColumnError, match="foo"):
            file_count(snapshot, predicate)
        return
    count = file_count(snapshot, predicate)
    assert count > 0 if case["files"] == ">0" else count == case["files"]
    if predicate is not None and BY_NAME[case["table"]]["expected"]["kind"] == "rows":
        whole = read(snapshot)
        select = ENGINE.expressions.predicate_evaluator(
            whole.schema, snapshot.scan_builder().with_filter(predicate).build().filter
        )
        expected = pa.Table.from_batches([b.filter(select(b, None)) for b in whole.to_batches()], whole.schema)
        assert_same_rows(read(snapshot, predicate), expected)


def plain_conditions(rows: pa.Table) -> Iterator[Expression]:
    """Filters on every column of a plain type, by the first value and the last that it has."""
    for field in rows.schema:
        values = rows.column(field.name).drop_null()
        if pa.types.is_nested(field.type) or pa.types.is_null(field.type) or not len(values):
            continue
        column, (low, high) = col(format_path((field.name,))), map(python_value, (values[0], values[len(values) - 1]))
        yield from (column == low, column != low, column < high, column >= high, column.is_null(), ~(column <= low))
        yield (column > low) | column.is_null() | column.isin([low, high])
        yield (column <= high) & column.is_not_null() & ~column.isin([high])


@chosen(has_rows)
@pytest.mark.parametrize("way", FILTERING)
def test_a_filter_leaves_the_same_rows_by_every_reader(name: str, way: str) -> None:
    whole, snapshot = latest_rows(name), table_of(name, engine=FILTERING[way]).latest_snapshot()
    if whole.num_rows > MAX_ROWS_FILTERED:
        pytest.skip("the same reader at work, for minutes")
    for condition in plain_conditions(whole):
        predicate = snapshot.scan_builder().with_filter(condition).build().filter
        select = ENGINE.expressions.predicate_evaluator(whole.schema, predicate)
        expected = [batch.filter(select(batch, None)) for batch in whole.to_batches()]
        assert_same_rows(read(snapshot, condition), pa.Table.from_batches(expected, whole.schema))


# Changes


@pytest.mark.parametrize(("name", "case"), change_cases("parquet"))
def test_the_changes_of_a_range_are_those_expected(name: str, case: Entry) -> None:
    expected = pq.read_table(case["parquet"])
    changes = changes_of(name, case)
    found = changes.to_arrow()
    assert_same_rows(found.drop(["_commit_timestamp"]), expected)
    assert found.num_rows == changes.count() == case["rows"]
    assert not found.column("_commit_timestamp").null_count
    one_by_one = pa.Table.from_batches(changes.to_batches(batch_size=1), found.schema)
    assert one_by_one.combine_chunks() == found.combine_chunks()


@pytest.mark.parametrize(("name", "case"), change_cases("ok"))
def test_a_range_with_the_feed_on_throughout_is_planned(name: str, case: Entry) -> None:
    versions = {file.commit_version for file in changes_of(name, case).files()}
    assert versions == set(range(case["start"], case["end"] + 1))


@pytest.mark.parametrize(("name", "case"), change_cases("error"))
def test_a_range_that_cannot_be_read_is_refused(name: str, case: Entry) -> None:
    with pytest.raises(ChangeFeedError) as caught:
        changes_of(name, case).files()
    if "disabled at v" in case["error"]:
        assert caught.value.version == int(case["error"].rpartition("v")[2])
        assert "feed is off" in str(caught.value)
    else:
        assert "schema" in case["error"]
        assert "cannot be read with the schema of version" in str(caught.value)


@cache
def told_changes() -> list[Entry]:
    """What upstream tests say of ranges, less the one that the manifest calls an error."""
    path = SHARED / "tables" / "expected" / "_cdf_expected.json"
    cases: list[Entry] = json.loads(path.read_text()) if path.is_file() else []
    return [case for case in cases if (case["table"], case["start"]) != ("krs--table-with-cdf", 3)]


@pytest.mark.shared
@pytest.mark.parametrize("case", told_changes(), ids=lambda case: range_id(f"--{case['table']}", case))
def test_the_changes_of_a_range_are_those_that_upstream_tells(case: Entry) -> None:
    name = case["table"] if case.get("full_name") else f"krs--{case['table']}"
    found = changes_of(name, case).to_arrow()
    assert found.num_rows == case.get("n_rows", found.num_rows)
    if "rows" in case:
        columns = [map(_as_told, found.column(column).to_pylist()) for column in case["columns"]]
        assert sorted(map(list, zip(*columns, strict=True))) == sorted(case["rows"])
        assert found.column_names == [*case["columns"], "_commit_timestamp"]


def _as_told(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_as_told(inner)}" for key, inner in value.items()) + "}"
    return str(value)
