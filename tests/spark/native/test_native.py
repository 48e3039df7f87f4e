"""Real tables through Spark's own reader: the rows are those that are expected, and the Python path's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

import lakeport
from lakeport.frame import Frame
from lakeport.spark.frames import to_python_frame
from lakeport.spark.native.document import FIELD_IDS
from lakeport.spark.native.frames import why_not_native
from tests.acceptance.comparing import assert_expected
from tests.acceptance.real_tables import BY_NAME, LARGE, Entry, chosen, has_variants, is_shareable, path_of, shared_name
from tests.spark.native.reading import native
from tests.spark.ways import rows_by_way

pytestmark = pytest.mark.usefixtures("native_jar")

BY_IDS = {
    "delta44--mapped-by-id",
    "odd--ids-mapped-for-writers",
    "golden--data-reader-timestamp_ntz-id-mode",
    "golden--data-skipping-basic-stats-all-types-columnmapping-id",
    "golden--table-with-columnmapping-mode-id",
    "golden--table-with-icebegCompatV2Enabled",
    "kdef--column-mapping-id",
    "krs--cdf-column-mapping-id-mode",
}
"""Tables that Spark's own reader takes only if the session lets it match columns by ids; all others it just takes."""
BINARY_PARTITIONS = {"delta33--partition-values", "delta44--partition-values"}
"""Tables with a partition column of bytes, which Spark would take for text."""


def is_native(entry: Entry) -> bool:
    return is_shareable(entry) and entry["name"] not in BINARY_PARTITIONS


@pytest.fixture
def with_ids(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(FIELD_IDS, "true")
    yield spark
    spark.conf.unset(FIELD_IDS)


@chosen(is_shareable)
def test_a_real_table_takes_sparks_own_reader(spark: SparkSession, name: str) -> None:
    reason = why_not_native(lakeport.scan(path_of(name)), spark)
    assert (reason is not None) == (name in BY_IDS | BINARY_PARTITIONS)
    assert reason is None or (FIELD_IDS if name in BY_IDS else "is binary") in reason


@chosen(is_native)
def test_the_rows_of_a_real_table_are_those_of_the_python_path(
    with_ids: SparkSession, real_tables_profile: Path, name: str
) -> None:
    frame, shared = lakeport.scan(path_of(name)), lakeport.scan(f"{real_tables_profile}#{shared_name(name)}")
    frames = {
        "native": native(with_ids, frame),
        "shared": native(with_ids, shared),
        "Python": to_python_frame(frame, with_ids),
    }
    assert len({rows.schema.json() for rows in frames.values()}) == 1
    if BY_NAME[name]["expected"]["rows"] > LARGE:
        frames = {"shared": frames["shared"]}
    if has_variants(BY_NAME[name]):  # PySpark cannot bring all of them to Arrow
        assert_same_json(list(frames.values()))
    else:
        for found in rows_by_way(frames).values():
            assert_expected(name, found, BY_NAME[name]["expected"])


def assert_same_json(frames: list[DataFrame]) -> None:
    texts = [frame.select(F.lit(number), F.to_json(F.struct("*"))) for number, frame in enumerate(frames)]
    found: list[Counter[str]] = [Counter() for _ in frames]
    for number, text in reduce(DataFrame.union, texts).collect():
        found[number][text] += 1
    assert all(rows == found[0] for rows in found)


@chosen(lambda entry: is_native(entry) and entry.get("expected_versions") and not has_variants(entry))
def test_the_first_version_of_a_real_table_has_the_rows_that_are_expected(with_ids: SparkSession, name: str) -> None:
    version, expected = next(iter(BY_NAME[name]["expected_versions"].items()))
    frame: Frame = lakeport.scan(path_of(name)).at(version=int(version))
    assert_expected(name, native(with_ids, frame).toArrow(), expected)
