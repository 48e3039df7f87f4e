"""Schemas as people give them: text, types by name, Arrow's and the kernel's; what no table can be is refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport import tables
from lakeport.errors import ConstraintError
from lakeport.kernel.schema import ArrayType, PrimitiveType, StructField, StructType

TEXTS = ArrayType(PrimitiveType("string"))


def field_with(name: Any, metadata: dict[str, Any], kind: str = "long") -> StructType:
    return StructType((StructField(name, PrimitiveType(kind), metadata=metadata),))


def arrow_with(metadata: dict[str, str], name: str = "a") -> pa.Field:
    return pa.field(name, pa.int64(), metadata=metadata)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 5}, "the name of a table must be text, not 5"),
        ({"description": {}}, "the description of a table must be text"),
        ({"schema": 5}, "int is not a schema: pass text"),
        ({"schema": {"id": 5}}, "5 is not a type"),
        ({"schema": {5: "long"}}, "the name of a column must be text, not 5"),
        ({"schema": "id lon"}, "'lon' is not a type"),
        ({"schema": "id long default nope"}, "a default cannot use columns"),
        ({"schema": "id long default 'x'"}, "long"),
        ({"schema": field_with("a", {"comment": 5})}, "comment of the column 'a' must be text, not 5"),
        ({"schema": field_with("a", {"x": object()})}, "the schema cannot be written"),
        ({"schema": field_with(5, {})}, "the name of a column must be text, not 5"),
        ({"schema": field_with("a", {}, "longer")}, "'longer'"),
        ({"schema": pa.schema([arrow_with({"delta.identity.start": "1"})])}, "delta.identity.start"),
        ({"schema": pa.schema([("s", pa.struct([arrow_with({"CURRENT_DEFAULT": "1"})]))])}, "it is nested"),
    ],
)
def test_what_no_table_can_be_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tables.create(str(tmp_path / "t"), **({"schema": "id long"} | options))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "schema",
    [
        "id long, tags array<string>",
        {"id": "long", "tags": "array<string>"},
        {"id": pa.int64(), "tags": TEXTS},
        pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))]),
        StructType(
            (StructField("id", PrimitiveType("bigint")), StructField("tags", ArrayType(PrimitiveType("string"))))
        ),
    ],
    ids=lambda schema: type(schema).__name__,
)
def test_a_schema_is_text_or_types_by_name_or_a_schema(tmp_path: Path, schema: Any) -> None:
    tables.create(str(tmp_path), schema=schema)
    tables.append(str(tmp_path), [{"id": 1, "tags": ["a"]}])
    found = lakeport.scan(str(tmp_path)).snapshot.schema
    assert found.fields[0].type == PrimitiveType("long")
    assert pa.table(DeltaTable(tmp_path).to_pyarrow_table()).to_pylist() == [{"id": 1, "tags": ["a"]}]


@pytest.mark.parametrize("as_text", [True, False])
def test_comments_defaults_and_expressions_of_new_columns_are_kept(tmp_path: Path, as_text: bool) -> None:
    text = "id long comment 'which', n long default 7, twice long generated always as (n * 2)"
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), metadata={"comment": "which", "PARQUET:field_id": "3", "other": "x"}),
            pa.field("n", pa.int64(), metadata={"CURRENT_DEFAULT": "7", "delta.columnMapping.id": "3"}),
            pa.field("twice", pa.int64(), metadata={"delta.generationExpression": "n * 2"}),
        ]
    )
    tables.create(str(tmp_path), schema=text if as_text else schema)
    found = lakeport.scan(str(tmp_path)).snapshot.schema
    assert [dict(field.metadata) for field in found] == [
        {"comment": "which"},
        {"CURRENT_DEFAULT": "7"},
        {"delta.generationExpression": "n * 2"},
    ]
    tables.append(str(tmp_path), {"id": [1]})
    assert lakeport.scan(str(tmp_path)).to_arrow().to_pylist() == [{"id": 1, "n": 7, "twice": 14}]


def test_an_invariant_of_arrows_metadata_holds(tmp_path: Path) -> None:
    invariant = {"delta.invariants": '{"expression": {"expression": "v > 0"}}'}
    tables.create(str(tmp_path), pa.table([[1]], pa.schema([arrow_with(invariant, "v")])))
    with pytest.raises(ConstraintError, match="v > 0"):
        tables.append(str(tmp_path), {"v": [0]})


def test_metadata_of_data_that_is_appended_means_nothing(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    odd = pa.table([[2]], pa.schema([arrow_with({"delta.identity.start": "1"}, "id")]))
    tables.append(str(tmp_path), odd, merge_schema=True)
    assert lakeport.scan(str(tmp_path)).count() == 2
