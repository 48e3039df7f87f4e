"""What may be read, and what is refused by name."""

from typing import Any

import pytest

from lakeport.engine import memory_engine
from lakeport.errors import CorruptTableError, UnsupportedFeatureError
from lakeport.kernel.features import READER_FEATURES, widens
from lakeport.kernel.schema import PrimitiveType, StructField
from tests.builder import TableBuilder, mapped, protocol, rows, struct

SCHEMA = struct(id="long")


def table(**options: Any) -> TableBuilder:
    options.setdefault("schema", SCHEMA)
    return TableBuilder(memory_engine(), "memory:///t", **options)


def test_an_unknown_reader_feature_is_refused_by_its_name() -> None:
    builder = table(protocol=protocol(features=["deletionVectors", "flyingCars", "aCar"])).create()
    with pytest.raises(UnsupportedFeatureError, match="aCar, flyingCars") as caught:
        builder.snapshot()
    assert caught.value.features == ("aCar", "flyingCars")


def test_an_unknown_writer_feature_does_not_matter() -> None:
    builder = table(protocol=protocol(features=["deletionVectors"], writer_only=["flyingCars"]))
    assert rows(builder.create(builder.add({"id": [1]})).snapshot()) == [(1,)]


def test_a_writer_version_from_the_future_does_not_matter() -> None:
    builder = table(protocol={"protocol": {"minReaderVersion": 1, "minWriterVersion": 99}})
    assert rows(builder.create(builder.add({"id": [1]})).snapshot()) == [(1,)]


def test_a_reader_version_from_the_future_is_refused() -> None:
    builder = table(protocol={"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}).create()
    with pytest.raises(UnsupportedFeatureError, match="reader version 4"):
        builder.snapshot()


@pytest.mark.parametrize("feature", sorted(READER_FEATURES - {"catalogManaged", "catalogOwned-preview"}))
def test_every_known_reader_feature_is_accepted(feature: str) -> None:
    builder = table(protocol=protocol(features=[feature]))
    assert rows(builder.create(builder.add({"id": [1]})).snapshot()) == [(1,)]


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_a_catalog_managed_table_is_refused_without_a_catalog(feature: str) -> None:
    builder = table(protocol=protocol(features=[feature])).create()
    with pytest.raises(UnsupportedFeatureError, match="catalog"):
        builder.snapshot()


def test_a_feature_that_arrives_later_does_not_keep_from_older_versions() -> None:
    builder = table().create()
    builder.commit(protocol(features=["flyingCars"]))
    assert rows(builder.snapshot(0)) == []
    with pytest.raises(UnsupportedFeatureError):
        builder.snapshot()


# Column mapping


def test_column_mapping_counts_only_if_the_protocol_supports_it() -> None:
    for which in (protocol(1, 2), protocol(features=["deletionVectors"]), protocol(1, writer_only=["columnMapping"])):
        builder = table(schema=mapped(SCHEMA), properties={"delta.columnMapping.mode": "name"}, protocol=which)
        builder.properties = {}  # so that the file has the logical names
        add = builder.add({"id": [7]})
        builder.properties = {"delta.columnMapping.mode": "name"}
        assert rows(builder.create(add).snapshot()) == [(7,)]


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("which", [protocol(2, 5), protocol(2, writer_only=["columnMapping"])])
def test_reader_version_two_is_column_mapping(mode: str, which: dict[str, Any]) -> None:
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


def test_a_column_of_an_unknown_type_is_refused() -> None:
    builder = table(schema=struct(g="geometry(OGC:CRS84)")).create()
    with pytest.raises(UnsupportedFeatureError, match="geometry"):
        builder.snapshot()
