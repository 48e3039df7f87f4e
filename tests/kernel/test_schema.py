"""Schemas: what their JSON may hold, and how names are looked up."""

import json
from typing import Any

import pytest

from lakeport.errors import CorruptTableError
from lakeport.kernel.expressions import col, format_expression, parse_path
from lakeport.kernel.features import check_type_changes
from lakeport.kernel.schema import parse_schema
from tests.builder import struct


def one_column(metadata: dict[str, Any]) -> str:
    field = {"name": "id", "type": "long", "nullable": True, "metadata": metadata}
    return json.dumps({"type": "struct", "fields": [field]})


@pytest.mark.parametrize(
    "metadata",
    [
        {"delta.columnMapping.physicalName": 5},
        {"delta.columnMapping.id": "x"},
        {"delta.typeChanges": 5},
        {"delta.typeChanges": ["long"]},
    ],
)
def test_metadata_of_another_kind_is_an_error(metadata: dict[str, Any]) -> None:
    with pytest.raises(CorruptTableError, match="'id'"):
        check_type_changes(parse_schema(one_column(metadata), path="/t"), "/t")


def test_metadata_that_is_null_is_not_there() -> None:
    nothing = dict.fromkeys(["delta.columnMapping.physicalName", "delta.columnMapping.id", "delta.typeChanges"])
    field = parse_schema(one_column(nothing)).fields[0]
    assert (field.physical_name("name"), field.field_id) == ("id", None)


def test_names_are_found_regardless_of_case_but_not_of_spelling() -> None:
    schema = struct(**{"straße": "long", "STRASSE": "string", "É": "double"})
    assert [schema.resolve((name,))[0].name for name in ("STRAßE", "strasse", "é")] == ["straße", "STRASSE", "É"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("`a```.b", ("a`", "b")),
        ("`` ``", (" ",)),
        ("", ("",)),
    ],
)
def test_backticks_keep_dots_and_two_of_them_are_one(text: str, path: tuple[str, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("path", [("a",), ("a", "b"), ("a.b", "c"), ("a`b",), ("x y", "é")])
def test_a_column_is_written_as_it_is_read(path: tuple[str, ...]) -> None:
    assert parse_path(format_expression(col(path))) == path
