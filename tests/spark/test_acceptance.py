"""Real tables of other implementations through Spark: rows, versions and change feeds, by both formats and `to_spark`.

Spark can express all that the kernel reads: no table is left out but those that only their catalog can open."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakeport
from lakeport.errors import LakeportError
from tests.acceptance.comparing import assert_expected, assert_same_rows, with_json_variants
from tests.acceptance.real_tables import (
    BY_NAME,
    LARGE,
    Entry,
    change_cases,
    chosen,
    has_variants,
    is_shareable,
    latest_rows,
    path_of,
    shared_name,
)
from tests.spark.ways import collected_by_way, read_lakeport, read_shared, rows_by_way


@chosen(lambda entry: is_shareable(entry) and not has_variants(entry))
def test_every_way_gives_the_rows_that_are_expected(spark: SparkSession, real_tables_profile: Path, name: str) -> None:
    frames = every_way(spark, name, real_tables_profile)
    if BY_NAME[name]["expected"]["rows"] > LARGE:
        frames = {way: frames[way] for way in ("lakeport", "shared frame")}
    for way, found in rows_by_way(frames).items():
        assert_expected(name, found, BY_NAME[name]["expected"], way)


@chosen(lambda entry: is_shareable(entry) and has_variants(entry))
def test_every_way_gives_the_variants_that_are_expected(
    spark: SparkSession, real_tables_profile: Path, name: str
) -> None:
    expected = with_json_variants(latest_rows(name))  # other tests compare them with what is expected
    for way, found in collected_by_way(every_way(spark, name, real_tables_profile)).items():
        rows, theirs = ([with_plain_json(row) for row in rows] for rows in (found, expected.to_pylist()))
        assert_same_rows(*(pa.Table.from_pylist(r, expected.schema) for r in (rows, theirs)), f"{name} by {way}")


def with_plain_json(value: Any) -> Any:
    """A row whose JSON text has sorted keys: PySpark writes floats with the digits of doubles, and more zeros."""
    match value:
        case dict():
            return {name: with_plain_json(inner) for name, inner in value.items()}
        case list() | tuple():
            return type(value)(map(with_plain_json, value))
        case str():
            with suppress(ValueError):
                text = json.dumps(
                    json.loads(value, parse_float=lambda number: float(f"{float(number):.7g}")), sort_keys=True
                )
                return re.sub(r"(\.\d*?)0+(?!\d)", r"\1", text).replace(".,", ",").replace(".}", "}")
    return value


def every_way(spark: SparkSession, name: str, real_tables_profile: Path) -> dict[str, DataFrame]:
    target = f"{real_tables_profile}#{shared_name(name)}"
    return {
        "lakeport": read_lakeport(spark, path_of(name)),
        "deltaSharing": read_shared(spark, target),
        "frame": lakeport.scan(path_of(name)).to_spark(spark),
        "shared frame": lakeport.scan(target).to_spark(spark),
    }


# Versions


def other_versions(entry: Entry) -> list[int]:
    """The first, and one in the middle."""
    latest = entry["state"]["version"]
    return sorted({0, latest // 2} - {latest})


@chosen(lambda entry: is_shareable(entry) and not has_variants(entry) and other_versions(entry))
def test_both_formats_give_other_versions(spark: SparkSession, real_tables_profile: Path, name: str) -> None:
    kept = {version: rows_at(name, version) for version in other_versions(BY_NAME[name])}
    for group in by_columns({version: rows for version, rows in kept.items() if rows is not None}):
        frames = {
            f"{way} {version}": frame
            for version in group
            for way, frame in both_formats(spark, name, real_tables_profile, versionAsOf=version).items()
        }
        for way, found in rows_by_way(frames).items():
            assert_same_rows(found, group[int(way.split()[-1])])


def both_formats(spark: SparkSession, name: str, real_tables_profile: Path, **options: Any) -> dict[str, DataFrame]:
    return {
        "lakeport": read_lakeport(spark, path_of(name), **options),
        "deltaSharing": read_shared(spark, f"{real_tables_profile}#{shared_name(name)}", **options),
    }


def rows_at(name: str, version: int) -> pa.Table | None:
    """None if its log, or its files, are not there any more."""
    try:
        return lakeport.scan(path_of(name)).at(version=version).to_arrow()
    except LakeportError:
        return None


def by_columns(versions: dict[int, pa.Table]) -> list[dict[int, pa.Table]]:
    """Versions with the same columns: one job reads them all."""
    groups: list[dict[int, pa.Table]] = []
    for version, rows in versions.items():
        group = next((known for known in groups if next(iter(known.values())).schema.equals(rows.schema)), None)
        if group is None:
            groups.append(group := {})
        group[version] = rows
    return groups


# Changes


@pytest.mark.parametrize(("name", "case"), change_cases("parquet"))
def test_every_way_gives_the_changes_that_are_expected(
    spark: SparkSession, real_tables_profile: Path, name: str, case: Entry
) -> None:
    start, end = case["start"], case["end"]
    shared = lakeport.scan(f"{real_tables_profile}#{shared_name(name)}")
    frames = {
        **both_formats(spark, name, real_tables_profile, readChangeFeed=True, startingVersion=start, endingVersion=end),
        "frame": lakeport.scan(path_of(name)).changes(start, end).to_spark(spark),
        "shared frame": shared.changes(start, end).to_spark(spark),
    }
    whole = lakeport.scan(path_of(name)).changes(start, end).to_arrow()
    for found in rows_by_way(frames).values():
        assert_same_rows(found.drop(["_commit_timestamp"]), pq.read_table(case["parquet"]))
        assert_same_rows(found, whole)
