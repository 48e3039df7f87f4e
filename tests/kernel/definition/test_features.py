"""What may be read, and what is refused by name."""

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from lakeport.engine import memory_engine
from lakeport.errors import CorruptTableError, UnsupportedFeatureError
from lakeport.kernel.definition import READER_FEATURES
from lakeport.kernel.schema import PrimitiveType, StructField, widens
from lakeport.testing.builder import TableBuilder, mapped, protocol, rows, struct

SCHEMA = struct(id="long")
CATALOG_FEATURES = {"catalogManaged", "catalogOwned-preview"}


def table(**options: Any) -> TableBuilder:
    options.setdefault("schema", SCHEMA)
    return TableBuilder(memory_engine(), "memory:///t", **options)


def test_an_unknown_reader_feature_is_refused_by_its_name() -> None:
    builder = table(protocol=protocol(features=["deletionVectors", "flyingCars", "aCar"])).create()
    with pytest.raises(UnsupportedFeatureError, match="aCar, flyingCars") as caught:
        builder.snapshot()
    assert caught.value.features == ("aCar", "flyingCars")


@pytest.mark.parametrize(
    "which",
    [
        protocol(features=["deletionVectors"], writer_only=["flyingCars"]),
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 99}},
    ],
    ids=["an unknown feature", "a version from the future"],
)
def test_what_only_writers_must_know_does_not_matter(which: dict[str, Any]) -> None:
    builder = table(protocol=which)
    assert rows(builder.create(builder.add({"id": [1]})).snapshot()) == [(1,)]


@pytest.mark.parametrize("feature", sorted(READER_FEATURES - CATALOG_FEATURES))
def test_every_known_reader_feature_is_accepted(feature: str) -> None:
    builder = table(protocol=protocol(features=[feature]))
    assert rows(builder.create(builder.add({"id": [1]})).snapshot()) == [(1,)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"protocol": {"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}}, "reader version 4"),
        ({"schema": struct(g="geometry(OGC:CRS84)")}, "geometry"),
        *(({"protocol": protocol(features=[feature])}, "catalog") for feature in sorted(CATALOG_FEATURES)),
        *(({"protocol": protocol(3, writer_only=[feature])}, "catalog") for feature in sorted(CATALOG_FEATURES)),
    ],
)
def test_what_is_not_known_or_needs_a_catalog_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=reason):
        table(**options).create().snapshot()


def test_a_feature_that_arrives_later_does_not_keep_from_older_versions() -> None:
    builder = table().create()
    builder.commit(protocol(features=["flyingCars"]))
    assert rows(builder.snapshot(0)) == []
    with pytest.raises(UnsupportedFeatureError):
        builder.snapshot()


# Column mapping


UNLISTED = [protocol(1, 2), protocol(1, 6), protocol(features=["deletionVectors"])]
LISTED_ONCE = [
    {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": r, "writerFeatures": w}}
    for r, w in ([[], ["columnMapping"]], [["columnMapping"], []])
]


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("which", [*LISTED_ONCE, protocol(1, writer_only=["columnMapping"])])
def test_column_mapping_that_is_listed_for_readers_or_for_writers_only_is_on(mode: str, which: dict[str, Any]) -> None:
    builder = table(
        schema=mapped(struct(id="long", day="string")),
        properties={"delta.columnMapping.mode": mode},
        protocol=which,
        partition_by=["day"],
    )
    assert rows(builder.create(builder.add({"col-1": [7]}, {"col-2": "mon"})).snapshot()) == [(7, "mon")]


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("which", UNLISTED)
def test_column_mapping_without_its_feature_is_refused_where_files_may_have_either_name(
    mode: str, which: dict[str, Any]
) -> None:
    builder = table(schema=mapped(SCHEMA), properties={"delta.columnMapping.mode": mode}, protocol=which).create()
    with pytest.raises(UnsupportedFeatureError, match=r"'id'.*'col-1'") as caught:
        builder.snapshot()
    assert caught.value.features == ("columnMapping",)


@pytest.mark.parametrize("which", UNLISTED)
def test_column_mapping_without_its_feature_does_not_matter_where_columns_have_one_name(which: dict[str, Any]) -> None:
    builder = table(properties={"delta.columnMapping.mode": "name"}, protocol=which)
    assert rows(builder.create(builder.add({"id": [7]})).snapshot()) == [(7,)]


@pytest.mark.parametrize("for_readers", [[], ["deletionVectors"]])
@pytest.mark.parametrize("for_writers", [[], ["deletionVectors"]])
def test_deletion_vectors_are_applied_however_they_are_listed(for_readers: list[str], for_writers: list[str]) -> None:
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    builder = table(protocol={"protocol": versions | {"readerFeatures": for_readers, "writerFeatures": for_writers}})
    add = builder.add({"id": [1, 2]})
    builder.create(add).commit(*builder.delete(add, [0]))
    assert rows(builder.snapshot()) == [(2,)]


@pytest.mark.parametrize("listed", [["timestampNtz"], []])
def test_timestamps_without_a_zone_are_read_however_they_are_listed(listed: list[str]) -> None:
    versions = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []}
    builder = table(schema=struct(t="timestamp_ntz"), protocol={"protocol": versions | {"writerFeatures": listed}})
    assert rows(builder.create(builder.add({"t": [datetime(2026, 1, 1)]})).snapshot()) == [(datetime(2026, 1, 1),)]


@pytest.mark.parametrize("listed", [["typeWidening"], []])
def test_widened_types_are_read_however_they_are_listed(listed: list[str]) -> None:
    change = {"delta.typeChanges": [{"fromType": "integer", "toType": "long", "tableVersion": 1}]}
    schema = struct(StructField("n", PrimitiveType("long"), metadata=change))
    versions = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []}
    builder = table(schema=schema, protocol={"protocol": versions | {"writerFeatures": listed}})
    add = builder.add(pa.table({"n": pa.array([5], pa.int32())}))
    assert rows(builder.create(add).snapshot()) == [(5,)]


@pytest.mark.parametrize("mode", ["name", "id", "NAME", "Id"])
@pytest.mark.parametrize("which", [protocol(2, 5), protocol(2, writer_only=["columnMapping"])])
def test_reader_version_two_is_column_mapping_in_a_mode_of_any_case(mode: str, which: dict[str, Any]) -> None:
    builder = table(schema=mapped(SCHEMA), properties={"delta.columnMapping.mode": mode}, protocol=which)
    assert rows(builder.create(builder.add({"col-1": [7]})).snapshot()) == [(7,)]


def test_an_unknown_column_mapping_mode_is_an_error() -> None:
    builder = table(properties={"delta.columnMapping.mode": "telepathy"}, protocol=protocol(2, 5)).create()
    with pytest.raises(CorruptTableError, match="telepathy"):
        builder.snapshot()


# Type changes


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ("byte", "short", True),
        ("byte", "long", True),
        ("integer", "long", True),
        ("long", "integer", False),
        ("float", "double", True),
        ("double", "float", False),
        ("integer", "double", True),
        ("long", "double", False),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("decimal(5,2)", "decimal(6,2)", True),
        ("decimal(5,2)", "decimal(7,4)", True),
        ("decimal(5,2)", "decimal(6,4)", False),
        ("decimal(5,2)", "decimal(5,1)", False),
        ("integer", "decimal(10,0)", True),
        ("integer", "decimal(12,2)", True),
        ("integer", "decimal(11,2)", False),
        ("long", "decimal(20,0)", True),
        ("long", "decimal(19,0)", False),
        ("string", "binary", False),
        ("integer", "string", False),
    ],
)
def test_types_are_widened_as_the_protocol_says(before: str, after: str, allowed: bool) -> None:
    assert widens(before, after) is allowed


@pytest.mark.parametrize("nested", [False, True])
def test_a_recorded_type_change_that_is_not_known_is_refused(nested: bool) -> None:
    change = {"delta.typeChanges": [{"fromType": "string", "toType": "integer", "tableVersion": 1}]}
    column = StructField("n", PrimitiveType("integer"), metadata=change)
    schema = struct(s=struct(column)) if nested else struct(column)
    builder = table(schema=schema, protocol=protocol(features=["typeWidening"])).create()
    with pytest.raises(UnsupportedFeatureError, match="string to integer"):
        builder.snapshot()


def test_a_recorded_type_change_that_is_known_is_read() -> None:
    change = {"delta.typeChanges": [{"fromType": "short", "toType": "integer", "tableVersion": 1}]}
    schema = struct(StructField("n", PrimitiveType("integer"), metadata=change))
    builder = table(schema=schema, protocol=protocol(features=["typeWidening-preview"]))
    assert rows(builder.create(builder.add({"n": [3]})).snapshot()) == [(3,)]
