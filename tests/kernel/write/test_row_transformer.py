"""Logical rows become complete, checked, physical and partitioned ones; what is wrong is told with its row."""

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from lakeport.engine import memory_engine
from lakeport.errors import ConstraintError, InvalidDataError
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from lakeport.kernel.transaction import create_table
from lakeport.kernel.write import PhysicalBatch, RowName, RowTransformer, partition_codes
from lakeport.testing.builder import struct

LONG = PrimitiveType("long")
NOW = 1_700_000_000_000


def transformer(schema: StructType, partition_by: tuple[str, ...] = (), **properties: str) -> RowTransformer:
    named = {name.replace("_", ".", 2): value for name, value in properties.items()}
    transaction = create_table(memory_engine(), "memory://t", schema, partition_by, named)
    transaction.started = NOW
    return RowTransformer(transaction.engine, transaction.write_context())


def transform(target: RowTransformer, **columns: Any) -> list[PhysicalBatch]:
    return list(target.transform(pa.record_batch(columns)))


def rows(parts: list[PhysicalBatch]) -> list[dict[str, Any]]:
    return [row for part in parts for row in part.data.to_pylist()]


def field(name: str, kind: str = "long", nullable: bool = True, **metadata: Any) -> StructField:
    return StructField(name, PrimitiveType(kind), nullable, metadata)


def generated(name: str, expression: str, kind: str = "long") -> StructField:
    return StructField(name, PrimitiveType(kind), True, {"delta.generationExpression": expression})


# Columns


def test_columns_are_put_in_the_tables_order_and_types() -> None:
    target = transformer(struct(id="long", name="string", price="decimal(10,2)"))
    [part] = transform(target, PRICE=[1, 2], Id=pa.array([1, 2], pa.int8()))
    assert part.data.schema.names == ["id", "name", "price"]
    assert part.data.schema.types == [pa.int64(), pa.string(), pa.decimal128(10, 2)]
    assert part.data["name"].null_count == 2


def test_the_row_of_a_misfit_counts_over_all_batches() -> None:
    target = transformer(struct(id="byte"))
    transform(target, id=[1, 2, 3])
    with pytest.raises(InvalidDataError) as caught:
        transform(target, id=[1, 1000])
    assert (caught.value.row, caught.value.column) == (4, "id")


def test_columns_that_the_table_lacks_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="the table has no column 'nmae': it has id, name"):
        transform(transformer(struct(id="long", name="string")), id=[1], nmae=["a"])


def test_void_columns_are_never_stored() -> None:
    target = transformer(struct(id="long", nothing="void"))
    [part] = transform(target, id=[1], nothing=pa.nulls(1))
    assert part.data.schema.names == ["id"]
    with pytest.raises(InvalidDataError, match="'nothing' is int64 in the data"):
        transform(target, id=[1], nothing=[1])


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_physical_names_and_ids(mode: str) -> None:
    schema = struct(id="long", at=struct(x="long"), tags=ArrayType(struct(y="long")))
    target = transformer(schema, delta_columnMapping_mode=mode)
    [part] = transform(target, id=[1], at=[{"x": 2}], tags=[[{"y": 3}]])
    assert all(f.name.startswith("col-") and b"PARQUET:field_id" in f.metadata for f in part.data.schema)
    [row] = part.data.to_pylist()
    first, second, third = row.values()
    assert (first, [*second.values()], [*third[0].values()]) == (1, [2], [3])


# Defaults


def test_a_column_that_is_not_given_has_its_default() -> None:
    schema = struct(
        field("id"),
        field("n", CURRENT_DEFAULT="1 + 2"),
        field("name", "string", CURRENT_DEFAULT="'it''s'"),
        field("at", "timestamp", CURRENT_DEFAULT="current_timestamp()"),
        field("none", CURRENT_DEFAULT="NULL"),
    )
    made = rows(transform(transformer(schema), id=[1, 2], name=["x", None]))
    assert [(row["n"], row["name"], row["none"]) for row in made] == [(3, "x", None), (3, None, None)]
    assert {row["at"].timestamp() for row in made} == {NOW / 1000}


def test_a_default_that_is_not_understood_says_so() -> None:
    schema = struct(field("id"), field("n", CURRENT_DEFAULT="nextval('s') +"))
    with pytest.raises(InvalidDataError, match="the expression of column 'n' is not understood"):
        transform(transformer(schema), id=[1])


# Generated columns


def test_a_generated_column_is_computed_where_it_is_not_given() -> None:
    schema = struct(
        field("at", "date"), generated("year", "YEAR(at)", "integer"), generated("twice", "n * 2"), field("n")
    )
    made = rows(transform(transformer(schema), at=[date(2026, 5, 1), None], n=[4, None]))
    assert [(row["year"], row["twice"]) for row in made] == [(2026, 8), (None, None)]


def test_a_generated_column_that_is_given_must_agree() -> None:
    target = transformer(struct(field("n"), generated("twice", "n * 2")))
    assert rows(transform(target, n=[1, None], twice=[2, None])) == [{"n": 1, "twice": 2}, {"n": None, "twice": None}]
    with pytest.raises(ConstraintError, match=r"row 3 violates the generated column 'twice'.*twice = 5") as caught:
        transform(target, n=[1, 2], twice=[2, 5])
    assert (caught.value.row, caught.value.column) == (3, "twice")
    with pytest.raises(ConstraintError):
        transform(target, n=[1], twice=pa.array([None], pa.int64()))


def test_a_generated_column_may_be_the_partition() -> None:
    schema = struct(field("at", "date"), generated("year", "YEAR(at)", "integer"))
    parts = transform(transformer(schema, ("year",)), at=[date(2025, 5, 1), date(2026, 5, 1), None])
    assert {part.partition_values["year"] for part in parts} == {"2025", "2026", None}
    assert all(part.data.schema.names == ["at"] for part in parts)


# Constraints


def test_a_null_in_a_required_column_is_refused_with_its_row() -> None:
    target = transformer(struct(field("id", nullable=False), field("n")))
    transform(target, id=[1, 2])
    with pytest.raises(ConstraintError, match="row 3: the column 'id' is null, but NOT NULL in the table") as caught:
        transform(target, id=[1, None])
    assert (caught.value.constraint, caught.value.column, caught.value.row) == ("NOT NULL", "id", 3)
    with pytest.raises(ConstraintError, match="'id' is null"):
        transform(target, n=[1])


@pytest.mark.parametrize(
    ("kind", "given", "column"),
    [
        (StructType((StructField("x", LONG, nullable=False),)), [{"x": 1}, None, {"x": None}], "c.x"),
        (ArrayType(LONG, contains_null=False), [[1], None, [1, None]], "c.element"),
        (
            MapType(PrimitiveType("string"), LONG, value_contains_null=False),
            pa.array([[("a", 1)], None, [("b", None)]], pa.map_(pa.string(), pa.int64())),
            "c.value",
        ),
    ],
)
def test_a_nested_null_is_refused_with_its_row(kind: Any, given: Any, column: str) -> None:
    target = transformer(StructType((StructField("c", kind),)))
    with pytest.raises(ConstraintError) as caught:
        transform(target, c=given)
    assert (caught.value.constraint, caught.value.column, caught.value.row) == ("NOT NULL", column, 2)


def test_a_check_constraint_names_itself_the_row_and_the_values() -> None:
    target = transformer(struct(id="long", day="string"), delta_constraints_later="id > 0 AND day >= '2026'")
    transform(target, id=[1], day=["2026-01-01"])
    with pytest.raises(ConstraintError) as caught:
        transform(target, id=[1, 2, 3], day=["2026-01-01", "2025-12-31", "x"])
    assert (caught.value.constraint, caught.value.row) == ("later", 2)
    assert str(caught.value) == (
        "row 2 violates the constraint 'later' (id > 0 AND day >= '2026'): id = 2, day = 2025-12-31; nothing was "
        "written to the table"
    )


def test_rows_are_called_what_their_giver_calls_them() -> None:
    target = transformer(struct(id="byte"), delta_constraints_positive="id > 0")
    for ids, message in (([1, -1], "the second violates the constraint"), ([1, 1000], "the second: '1000' in column")):
        with pytest.raises(InvalidDataError, match=f"^{message}") as caught:
            target.checked(pa.record_batch({"id": ids}), lambda row: RowName(["the first", "the second"][row]))
        assert caught.value.row is None


def test_a_constraint_that_is_null_is_broken() -> None:
    with pytest.raises(ConstraintError, match="row 1"):
        transform(transformer(struct(id="long"), delta_constraints_positive="id > 0"), id=[1, None])


def test_a_constraint_may_look_at_nested_fields() -> None:
    target = transformer(struct(at=struct(x="long")), delta_constraints_inside="at.x < 10")
    transform(target, at=[{"x": 1}])
    with pytest.raises(ConstraintError, match="row 1 violates the constraint 'inside'"):
        transform(target, at=[{"x": 10}])


def test_a_constraint_may_look_at_partition_columns() -> None:
    target = transformer(struct(id="long", day="string"), ("day",), delta_constraints_known="day IN ('a', 'b')")
    assert len(transform(target, id=[1, 2], day=["a", "b"])) == 2
    with pytest.raises(ConstraintError, match="row 3"):
        transform(target, id=[1, 2], day=["a", "c"])


def test_an_invariant_of_a_column_is_checked() -> None:
    invariant = '{"expression":{"expression":"n > 3"}}'
    target = transformer(struct(StructField("n", LONG, True, {"delta.invariants": invariant})))
    transform(target, n=[4])
    with pytest.raises(ConstraintError, match="row 2 violates the constraint 'invariant of n'"):
        transform(target, n=[4, 3])


@pytest.mark.parametrize("condition", ["id >", "some_function(id) = 1", "nothing = 1"])
def test_a_table_whose_constraint_is_not_understood_is_not_written(condition: str) -> None:
    with pytest.raises(ValueError, match=r"constraint|nothing"):
        transformer(struct(id="long"), delta_constraints_odd=condition)


# Partitions


def test_rows_are_sorted_into_partitions_and_keep_their_order() -> None:
    target = transformer(struct(id="long", day="string", n="integer"), ("day", "n"))
    parts = transform(target, id=[1, 2, 3, 4, 5], day=["a", "b", "a", None, "a"], n=[1, 1, 1, 1, 2])
    found = {tuple(part.partition_values.values()): part.data["id"].to_pylist() for part in parts}
    assert found == {("a", "1"): [1, 3], ("b", "1"): [2], (None, "1"): [4], ("a", "2"): [5]}
    assert all(part.data.schema.names == ["id"] for part in parts)


def test_partition_values_have_physical_names() -> None:
    target = transformer(struct(id="long", day="string"), ("day",), delta_columnMapping_mode="name")
    [part] = transform(target, id=[1], day=["a"])
    assert [name.startswith("col-") for name in part.partition_values] == [True]


def test_empty_text_is_null_as_a_partition_value() -> None:
    target = transformer(struct(id="long", day="string"), ("day",))
    [part] = transform(target, id=[1, 2], day=["", None])
    assert part.partition_values == {"day": None}
    assert part.data["id"].to_pylist() == [1, 2]


def test_empty_text_is_refused_as_a_partition_value_that_must_not_be_null() -> None:
    target = transformer(struct(field("id"), field("day", "string", nullable=False)), ("day",))
    with pytest.raises(ConstraintError, match="row 1: the column 'day' is null"):
        transform(target, id=[1, 2], day=["a", ""])


def test_bytes_that_are_no_text_cannot_be_a_partition_value() -> None:
    target = transformer(struct(id="long", key="binary"), ("key",))
    with pytest.raises(InvalidDataError, match="the partition column 'key' has bytes that are not UTF-8 text"):
        transform(target, id=[1], key=[b"\xff"])


def test_no_rows_are_no_error() -> None:
    target = transformer(struct(id="long", day="string"), ("day",), delta_constraints_c="id > 0")
    assert rows(transform(target, id=pa.array([], pa.int64()), day=pa.array([], pa.string()))) == []


def test_codes_are_equal_for_equal_values_only() -> None:
    columns = [pa.array(["a", "b", "a", None, None]), pa.array([1, 1, 1, 1, None])]
    codes, values_of = partition_codes(columns)
    assert [codes.tolist().count(code) for code in codes.tolist()] == [2, 1, 2, 1, 1]
    assert values_of(4) == [None, None]
