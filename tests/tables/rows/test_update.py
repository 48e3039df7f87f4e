"""`tables.update`: new values, checked, with the rows' identity and the change feed kept."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import col, lit, tables
from lakeport.errors import ConstraintError, InvalidDataError
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from tests.properties import FEED, TRACKING, VECTORS
from tests.tables.modelled import KINDS, ModelledTable, logged

each_kind = pytest.mark.parametrize("properties", KINDS.values(), ids=KINDS.keys())


@each_kind
@pytest.mark.parametrize("partition_by", [(), ("part",)], ids=["unpartitioned", "partitioned"])
def test_matching_rows_get_new_values_and_all_others_stay(
    tmp_path: Path, properties: Mapping[str, str], partition_by: tuple[str, ...]
) -> None:
    table = ModelledTable.create(tmp_path, properties, partition_by)
    table.update({"n": "n + 100"}, "id % 10 = 3", lambda r: {"n": r["n"] and r["n"] + 100}, lambda r: r["id"] % 10 == 3)
    table.update({"text": lit("new")}, "part = 'p 1'", lambda r: {"text": "new"}, lambda r: r["part"] == "p 1")
    table.delete("id % 10 = 3", lambda row: row["id"] % 10 == 3)
    table.update(
        {"n": None, "text": "upper(text)"}, None, lambda r: {"n": None, "text": r["text"] and r["text"].upper()}
    )


@each_kind
def test_a_row_moves_with_its_partition_column(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties)
    table.update({"part": lit("p/9 ü")}, "id < 10", lambda r: {"part": "p/9 ü"}, lambda r: r["id"] < 10)
    table.update({"part": None}, "part = 'p/9 ü'", lambda r: {"part": None}, lambda r: r["part"] == "p/9 ü")


@each_kind
def test_rows_for_which_the_condition_is_null_stay(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties)
    table.update({"n": 0}, "n > 5", lambda r: {"n": 0}, lambda r: r["n"] is not None and r["n"] > 5)
    table.update({"n": -1}, col("n").is_null(), lambda r: {"n": -1}, lambda r: r["n"] is None)


def test_values_are_computed_from_the_rows_as_they_were(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS)
    table.update(
        {"id": "n", "n": "CAST(id AS INT)"},
        "n IS NOT NULL",
        lambda r: {"id": r["n"], "n": r["id"]},
        lambda r: r["n"] is not None,
    )


@pytest.mark.parametrize("properties", [VECTORS | FEED, FEED], ids=["vectors", "plain"])
def test_one_field_of_a_struct_can_be_set(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties)

    def change(row: dict[str, Any]) -> dict[str, Any]:
        return {"s": {"a": row["id"] + 1, "b": row["s"] and row["s"]["b"]}}

    table.update({"s.a": "id + 1"}, "id < 30", change, lambda r: r["id"] < 30)
    table.update({"s": None}, "id < 5", lambda r: {"s": None}, lambda r: r["id"] < 5)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int32(), 5, 5),
        (pa.float64(), 5, 5.0),
        (pa.decimal128(10, 2), Decimal("1.5"), Decimal("1.50")),
        (pa.date32(), date(2026, 1, 2), date(2026, 1, 2)),
        (pa.date32(), "DATE'2026-01-02'", date(2026, 1, 2)),
        (pa.bool_(), True, True),
        (pa.string(), lit("it's"), "it's"),
        (pa.string(), "'a' || 'b'", "ab"),
        (pa.binary(), b"\x00\xff", b"\x00\xff"),
        (pa.int32(), None, None),
    ],
)
def test_plain_values_and_expressions_become_the_column_s_type(
    tmp_path: Path, kind: pa.DataType, value: Any, expected: Any
) -> None:
    path = str(tmp_path / "table")
    tables.create(path, schema=pa.schema([("id", pa.int64()), ("v", kind)]), properties=VECTORS)
    tables.append(path, pa.table({"id": [1, 2]}))
    tables.update(path, {"v": value}, "id = 2")
    assert sorted(lakeport.scan(path).to_arrow().to_pylist(), key=lambda r: r["id"])[1] == {"id": 2, "v": expected}


@pytest.mark.parametrize("vectors", [True, False])
def test_updated_rows_keep_their_ids_and_get_this_version(tmp_path: Path, vectors: bool) -> None:
    table = ModelledTable.create(tmp_path, TRACKING | (VECTORS if vectors else {}), ())
    before = table.row_versions()
    result = table.update({"n": 7}, "id % 10 = 3", lambda r: {"n": 7}, lambda r: r["id"] % 10 == 3)
    table.delete("id % 10 = 4", lambda r: r["id"] % 10 == 4)
    assert table.row_versions() == {
        i: result.version if i % 10 == 3 else version for i, version in before.items() if i % 10 != 4
    }


def test_with_vectors_only_the_updated_rows_are_written(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS, ())
    result = table.update({"n": 7}, "id % 10 = 3", lambda r: {"n": 7}, lambda r: r["id"] % 10 == 3)
    assert result.metrics["numCopiedRows"] == result.metrics["numRemovedFiles"] == 0
    assert result.metrics["numDeletionVectorsAdded"] == 3
    assert result.metrics["numAddedFiles"] == 1


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
def test_a_broken_constraint_changes_nothing(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, {**properties, "delta.constraints.small": "id < 1000"})
    before = table.files_on_disk()
    with pytest.raises(ConstraintError, match="small"):
        tables.update(table.path, {"id": "id + 950"})
    assert table.files_on_disk() == before
    table.update({"id": "id + 940"}, None, lambda r: {"id": r["id"] + 940})


@pytest.mark.parametrize("properties", [TRACKING, TRACKING | VECTORS], ids=["plain", "vectors"])
def test_a_row_that_is_refused_is_shown_as_it_was(tmp_path: Path, properties: Mapping[str, str]) -> None:
    path = str(tmp_path / "table")
    tables.create(path, {"id": [0, 1, 2], "n": [5, 6, 7]}, properties={**properties, "delta.constraints.c": "n < 9"})
    for where in (None, "id >= 1"):
        with pytest.raises(ConstraintError) as caught:
            tables.update(path, {"n": "n + 3"}, where)
        assert str(caught.value) == (
            "the row with (id = 1, n = 6) violates the constraint 'c' (n < 9): n = 9; nothing was written to the table"
        )
        assert (caught.value.row, caught.value.column) == (None, "n")
    with pytest.raises(InvalidDataError, match=r"^the row with \(id = 1, n = 6\): '1.5' in column 'n'") as misfit:
        tables.update(path, {"n": "n / 4"}, "id = 1")
    assert misfit.value.row is None


def test_a_required_column_does_not_become_null(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
    tables.create(path, pa.Table.from_pylist([{"id": 1, "n": None}, {"id": 2, "n": 5}], schema))
    with pytest.raises(ConstraintError):
        tables.update(path, {"id": "n"})
    assert tables.update(path, {"id": "n"}, "n > 0").metrics["numUpdatedRows"] == 1


def generated_table(path: str, properties: Mapping[str, str]) -> None:
    long, string = PrimitiveType("long"), PrimitiveType("string")
    schema = StructType(
        (
            StructField("id", long),
            StructField("twice", long, metadata={"delta.generationExpression": "id * 2"}),
            StructField("text", string),
            StructField("part", long, metadata={"delta.generationExpression": "id % 3"}),
        )
    )
    tables.create(path, schema=schema, partition_by=["part"], properties=dict(properties))
    tables.append(path, pa.table({"id": range(10), "text": ["x"] * 10}))


@pytest.mark.parametrize("properties", [{}, VECTORS | FEED, FEED], ids=["plain", "vectors", "feed"])
def test_generated_columns_follow_what_they_are_made_of(tmp_path: Path, properties: Mapping[str, str]) -> None:
    path = str(tmp_path / "table")
    generated_table(path, properties)
    tables.update(path, {"id": "id + 100"}, "id < 4")
    tables.update(path, {"text": lit("y")}, "part = 1")
    tables.update(path, {"id": 50, "twice": "100"}, "id = 9")
    ids = [i + 100 if i < 4 else 50 if i == 9 else i for i in range(10)]
    expected = [{"id": i, "twice": i * 2, "text": "y" if i % 3 == 1 else "x", "part": i % 3} for i in sorted(ids)]
    assert sorted(lakeport.scan(path).to_arrow().to_pylist(), key=lambda r: r["id"]) == expected
    if "delta.enableChangeDataFeed" in properties:
        changes = lakeport.scan(path).changes(2, 2).where("_change_type = 'update_postimage'").to_arrow().to_pylist()
        assert {(r["id"], r["twice"], r["part"]) for r in changes} == {(i, i * 2, i % 3) for i in range(100, 104)}


def test_a_generated_column_that_is_set_must_agree(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    generated_table(path, VECTORS)
    with pytest.raises(ConstraintError, match="twice"):
        tables.update(path, {"twice": 7}, "id = 1")
    assert tables.update(path, {"twice": "id + id"}, "id = 1").metrics["numUpdatedRows"] == 1


def test_the_history_tells_what_was_updated(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS)
    table.update({"n": 1}, "id = 3", lambda r: {"n": 1}, lambda r: r["id"] == 3)
    (info,) = logged(table.path, table.version, "commitInfo")
    assert info["operation"] == "UPDATE"
    assert info["operationParameters"] == {"predicate": '["id = 3"]'}
    assert info["operationMetrics"]["numUpdatedRows"] == "1"


@pytest.mark.parametrize("given", ["id = 1", 5, [("id", 1)]])
def test_what_is_set_is_a_dict(tmp_path: Path, given: Any) -> None:
    tables.create(str(tmp_path), {"id": [1]})
    merge = tables.merge(str(tmp_path), {"id": [1]}, "target.id = source.id")
    for change in (lambda: tables.update(str(tmp_path), given), lambda: merge.when_matched_update(given)):
        with pytest.raises(ValueError, match="the new values must be a dict of columns and values"):
            change()
