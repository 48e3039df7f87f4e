"""Real tables of other implementations as the sources of streams: their rows, and their changes, in small batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadMaxFiles

from tests.acceptance.comparing import assert_expected, assert_same_rows
from tests.acceptance.real_tables import (
    BY_NAME,
    LARGE,
    Entry,
    change_cases,
    chosen,
    has_variants,
    is_shareable,
    path_of,
    shared_name,
)
from tests.spark.streaming import Checkpoint, Followed, batches_between

FEW_FILES = ReadMaxFiles(3)


def is_streamed(entry: Entry) -> bool:
    """Variants are compared where Spark reads them; here they have the form that Spark wants."""
    return is_shareable(entry) and not has_variants(entry) and 0 < entry["expected"]["rows"] <= LARGE


def followed(kind: str, name: str, real_tables_profile: Path) -> Followed:
    target = path_of(name) if kind == "lakeport" else f"{real_tables_profile}#{shared_name(name)}"
    return Followed(path_of(name), target, sharing=kind == "deltaSharing")


def is_open_ended(name: str, case: Entry) -> bool:
    return bool(case["end"] == BY_NAME[name]["state"]["version"])


def rows_of(table: Followed, **options: Any) -> pa.Table:
    """All that a stream has now."""
    reader = table.reader(**options)
    ranges = Checkpoint().ranges(reader, FEW_FILES)
    return pa.Table.from_batches([batch for start, end in ranges for batch in batches_between(reader, start, end)])


@pytest.mark.parametrize("kind", ["lakeport", "deltaSharing"])
@chosen(is_streamed)
def test_a_stream_begins_with_the_rows_of_the_table(real_tables_profile: Path, name: str, kind: str) -> None:
    assert_expected(name, rows_of(followed(kind, name, real_tables_profile)), BY_NAME[name]["expected"])


@pytest.mark.parametrize("kind", ["lakeport", "deltaSharing"])
@pytest.mark.parametrize(("name", "case"), [case for case in change_cases("parquet") if is_open_ended(*case.values)])
def test_a_stream_has_the_changes_from_a_version_on(
    real_tables_profile: Path, name: str, case: Entry, kind: str
) -> None:
    found = rows_of(followed(kind, name, real_tables_profile), readChangeFeed=True, startingVersion=case["start"])
    assert_same_rows(found.drop(["_commit_timestamp"]), pq.read_table(case["parquet"]))
