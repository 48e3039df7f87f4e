"""Real tables of other implementations as the sources of streams: their rows, and their changes, in small batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadMaxFiles

from tests.client.test_shared_table import is_shareable, name_of
from tests.spark.streaming import Checkpoint, Followed, batches_between
from tests.spark.ways import has_variants
from tests.test_acceptance import (
    BY_NAME,
    LARGE,
    TABLES,
    Entry,
    assert_expected,
    assert_same_rows,
    change_cases,
    chosen,
    path_of,
)

pytestmark = pytest.mark.shared
FEW_FILES = ReadMaxFiles(3)


def is_streamed(entry: Entry) -> bool:
    """Variants are compared where Spark reads them; here they have the form that Spark wants."""
    return is_shareable(entry) and not has_variants(entry) and 0 < entry["expected"]["rows"] <= LARGE


def followed(kind: str, name: str, profile: Path) -> Followed:
    target = path_of(name) if kind == "lakeport" else f"{profile}#{name_of(name)}"
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
def test_a_stream_begins_with_the_rows_of_the_table(profile: Path, name: str, kind: str) -> None:
    assert_expected(name, rows_of(followed(kind, name, profile)), BY_NAME[name]["expected"])


@pytest.mark.parametrize("kind", ["lakeport", "deltaSharing"])
@pytest.mark.parametrize(("name", "case"), [case for case in change_cases("parquet") if is_open_ended(*case.values)])
def test_a_stream_has_the_changes_from_a_version_on(profile: Path, name: str, case: Entry, kind: str) -> None:
    found = rows_of(followed(kind, name, profile), readChangeFeed=True, startingVersion=case["start"])
    assert_same_rows(found.drop(["_commit_timestamp"]), pq.read_table(TABLES / case["parquet"]))
