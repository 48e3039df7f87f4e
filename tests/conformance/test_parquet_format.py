"""The lines of an answer in the parquet format."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.conformance.reading import fetch, parse_partition_value, table_rows
from tests.conformance.roles import READABLE_AS_PARQUET, VALUES
from tests.conformance.target import PARQUET, Answer, SharedTable, Target

pytestmark = pytest.mark.section("API Response Actions in Parquet Format")

FILE = {"url", "id", "partitionValues", "size"}
OPTIONAL = {"stats", "version", "timestamp", "expirationTimestamp"}
PRIMITIVES = {
    "string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp",
}  # fmt: skip


def fields_of(target: Target, role: str) -> dict[str, Any]:
    return {field["name"]: field for field in target.table(role).metadata(PARQUET).fields}


@pytest.mark.section("JSON Wrapper Object In Each Line")
@pytest.mark.parametrize("role", READABLE_AS_PARQUET)
def test_a_line_has_one_thing_in_it(target: Target, role: str) -> None:
    table = target.table(role)
    assert all(len(line) == 1 for line in table.query(PARQUET).lines)
    if role != "vectors_unused":
        assert all(len(line) == 1 for line in table.query(PARQUET, startingVersion=0).lines)


@pytest.mark.section("Protocol")
def test_the_protocol_is_version_1(plain: SharedTable) -> None:
    assert plain.query(PARQUET).protocol == {"minReaderVersion": 1}


@pytest.mark.section("Metadata", "Format")
@pytest.mark.parametrize("role", READABLE_AS_PARQUET)
def test_the_metadata_have_what_is_required(target: Target, role: str) -> None:
    metadata = target.table(role).query(PARQUET).metadata
    required = {"id", "format", "schemaString", "partitionColumns"}
    optional = {"name", "description", "configuration", "version", "size", "numFiles"}
    assert required <= set(metadata) <= required | optional | {"location", "auxiliaryLocations", "accessModes"}
    assert metadata["format"] == {"provider": "parquet"}
    assert isinstance(metadata["partitionColumns"], list)
    assert all(isinstance(value, str) for value in metadata.get("configuration", {}).values())


@pytest.mark.section("Metadata")
def test_the_metadata_tell_of_the_table(plain: SharedTable, feed: SharedTable, target: Target) -> None:
    answer = plain.query(PARQUET)
    assert answer.metadata["partitionColumns"] == ["day"]
    assert answer.metadata["name"] == "plain"
    assert answer.metadata["description"] == "what every client reads"
    assert target.table("stream").query(PARQUET).metadata["partitionColumns"] == []
    assert feed.query(PARQUET).metadata["configuration"] == {"enableChangeDataFeed": "true"}
    assert answer.metadata["id"] == plain.query(PARQUET, version=0).metadata["id"] == plain.metadata().metadata["id"]


@pytest.mark.section("Metadata")
@pytest.mark.parametrize("role", READABLE_AS_PARQUET)
def test_the_size_and_the_number_of_files_are_those_of_the_lines(target: Target, role: str) -> None:
    answer = target.table(role).query(PARQUET)
    target.requires("sizes of tables", present="size" in answer.metadata)
    assert answer.metadata["numFiles"] == len(answer.files)
    assert answer.metadata["size"] == sum(file.body["size"] for file in answer.files)


@pytest.mark.section("File")
@pytest.mark.parametrize("role", READABLE_AS_PARQUET)
def test_a_file_has_what_is_required(target: Target, role: str) -> None:
    answer = target.table(role).query(PARQUET)
    partitions = set(answer.metadata["partitionColumns"])
    now = time.time() * 1000
    for file in answer.files:
        assert FILE <= set(file.body) <= FILE | OPTIONAL
        assert set(file.body["partitionValues"]) == partitions
        assert len(fetch(file.url)) == file.body["size"]
        assert file.body.get("expirationTimestamp", now + 1) > now
    assert len({file.body["id"] for file in answer.files}) == len(answer.files)


@pytest.mark.section("File")
def test_a_file_has_the_same_id_in_every_answer(stream: SharedTable) -> None:
    def ids(answer: Answer) -> dict[bytes, str]:
        return {fetch(file.url): file.body["id"] for file in answer.files}

    first = ids(stream.query(PARQUET, version=4))
    assert first == ids(stream.query(PARQUET, version=4))
    assert first.items() <= ids(stream.query(PARQUET, startingVersion=0)).items()


@pytest.mark.section("Data Change Files", "Add File", "CDF File", "Remove File")
@pytest.mark.parametrize("parameters", [{}, {"includeHistoricalMetadata": "true"}])
def test_a_file_of_changes_has_what_is_required(feed: SharedTable, parameters: dict[str, str]) -> None:
    answers = [feed.changes(PARQUET, startingVersion=0, **parameters), feed.query(PARQUET, startingVersion=0)]
    kinds = set()
    for file in (file for answer in answers for file in answer.files):
        kinds.add(file.key)
        required = FILE | {"timestamp", "version"}
        optional = {"expirationTimestamp"} | ({"stats"} if file.key == "add" else set())
        assert required <= set(file.body) <= required | optional
        assert set(file.body["partitionValues"]) == {"day"}
        assert file.body["size"] == len(fetch(file.url))
    assert kinds == {"add", "cdf", "remove"}


@pytest.mark.section("Schema Object", "Struct Type", "Struct Field")
@pytest.mark.parametrize("role", READABLE_AS_PARQUET)
def test_the_schema_is_a_struct_of_fields(target: Target, role: str) -> None:
    schema = json.loads(target.table(role).metadata(PARQUET).metadata["schemaString"])
    assert set(schema) == {"type", "fields"}
    assert_type(schema)


def assert_type(found: Any) -> None:
    """A type by the rules of the schema object."""
    if isinstance(found, str):
        assert found in PRIMITIVES or found.startswith("decimal(")
    elif found["type"] == "struct":
        for field in found["fields"]:
            assert set(field) == {"name", "type", "nullable", "metadata"}
            assert isinstance(field["nullable"], bool)
            assert isinstance(field["metadata"], dict)
            assert_type(field["type"])
    elif found["type"] == "array":
        assert set(found) == {"type", "elementType", "containsNull"}
        assert_type(found["elementType"])
    else:
        assert set(found) == {"type", "keyType", "valueType", "valueContainsNull"}
        assert found["type"] == "map"
        assert_type(found["keyType"])
        assert_type(found["valueType"])


@pytest.mark.section("Example", "Array Type", "Map Type")
def test_the_schema_of_the_example(target: Target) -> None:
    inner = {"type": "struct", "fields": [{"name": "d", "type": "integer", "nullable": False, "metadata": {}}]}
    expected: list[dict[str, Any]] = [
        {"name": "a", "type": "integer", "nullable": False, "metadata": {"comment": "this is a comment"}},
        {"name": "b", "type": inner, "nullable": True, "metadata": {}},
        {"name": "c", "type": {"type": "array", "elementType": "integer", "containsNull": False}},
        {"name": "e", "type": {"type": "array", "elementType": inner, "containsNull": True}},
        {"name": "f", "type": {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}},
    ]
    fields = fields_of(target, "nested")
    for field in expected:
        assert fields[field["name"]] == {"nullable": True, "metadata": {}} | field


@pytest.mark.section("Primitive Types")
def test_every_primitive_type_has_its_name(target: Target) -> None:
    fields = fields_of(target, "typed") | fields_of(target, "nested")
    found = {name: field["type"] for name, field in fields.items() if isinstance(field["type"], str)}
    assert found == {
        "bool": "boolean",
        "int": "integer",
        "long": "long",
        "string": "string",
        "date": "date",
        "float": "float",
        "double": "double",
        "timestamp": "timestamp",
        "a": "integer",
        "small": "short",
        "tiny": "byte",
        "price": "decimal(38,10)",
        "raw": "binary",
    }


@pytest.mark.section("Partition Value Serialization")
def test_partition_values_are_text_by_their_types(target: Target) -> None:
    """A time may also be in ISO 8601, as Delta logs have it: it is passed on as it is."""
    answer = target.table("typed_partitions").query(PARQUET)
    kinds = {field["name"]: field["type"] for field in answer.fields}
    for file in answer.files:
        (row,) = {json.loads(file.body["stats"])["minValues"]["id"]}
        values = file.body["partitionValues"]
        assert {name: parse_partition_value(text, kinds[name]) for name, text in values.items()} == {
            name: of_type[row] for name, of_type in VALUES.items()
        }
    exact = {"bool": "true", "int": "7", "long": "1099511627776", "string": "pear", "date": "2021-04-29"}
    assert any(exact.items() <= file.body["partitionValues"].items() for file in answer.files)
    assert any(set(file.body["partitionValues"].values()) <= {None, ""} for file in answer.files)


@pytest.mark.section("Per-file Statistics")
@pytest.mark.parametrize("role", ["plain", "typed", "nested", "stream"])
def test_statistics_are_json_that_counts_records_and_bounds_columns(target: Target, role: str) -> None:
    table = target.table(role)
    answer = table.query(PARQUET)
    rows = 0
    for file in answer.files:
        stats = json.loads(file.body["stats"])
        rows += stats["numRecords"]
        assert set(stats) <= {"numRecords", "minValues", "maxValues", "nullCount", "tightBounds"}
        assert set(stats.get("minValues", {})) <= {field["name"] for field in answer.fields}
    assert rows == len(table_rows(table.truth()))


@pytest.mark.section("Per-file Statistics")
def test_statistics_mirror_the_schema(target: Target) -> None:
    (file,) = target.table("nested").query(PARQUET).files
    stats = json.loads(file.body["stats"])
    assert stats["minValues"]["b"] == stats["maxValues"]["b"] == {"d": 2}
    assert stats["nullCount"]["b"] == {"d": 0}
    assert (stats["minValues"]["a"], stats["maxValues"]["a"], stats["nullCount"]["a"]) == (1, 1, 0)
