"""Changes of a schema: what they give, and what is refused with which reason."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.errors import UnknownColumnError
from lakeport.kernel.definition import check_type_changes
from lakeport.kernel.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from lakeport.kernel.schema.evolution import (
    add_column,
    drop_column,
    merge_schema,
    relax_not_null,
    rename_column,
    widen_column,
)
from lakeport.testing.builder import mapped, struct

LONG, INTEGER, STRING = (PrimitiveType(name) for name in ("long", "integer", "string"))
NEW = StructField("new", LONG)
NESTED = struct(
    a="long", s=struct(x="long", y="string"), l=ArrayType(struct(e="integer")), m=MapType(STRING, ArrayType(INTEGER))
)
DROP: dict[str, Any] = {"mapping_mode": "name", "partition_columns": ["a"], "uses": {}}
RENAME: dict[str, Any] = {"mapping_mode": "name", "uses": {}}


def at(schema: StructType, *path: str) -> Any:
    """The type at a path."""
    found: Any = schema
    for part in path:
        found = found.find(part).type if isinstance(found, StructType) else getattr(found, part)
    return found


def changes(schema: StructType, *path: str) -> Any:
    """The recorded type changes of the field at a path."""
    field = at(schema, *path[:-1]).find(path[-1])
    return field.metadata.get("delta.typeChanges")


# Adding


@pytest.mark.parametrize("parent", [(), ("s",), ("S",), ("l", "element")])
def test_a_new_column_is_the_last_of_its_struct(parent: tuple[str, ...]) -> None:
    schema = add_column(NESTED, NEW, parent)
    lowered = tuple(part.lower() for part in parent)
    assert at(schema, *lowered).fields == (*at(NESTED, *lowered).fields, NEW)


@pytest.mark.parametrize(
    ("field", "parent", "message"),
    [
        (StructField("A", LONG), (), "the column 'A' already exists"),
        (StructField("x", LONG), ("s",), "the column 's.x' already exists"),
        (StructField("n", LONG, nullable=False), (), "must be nullable"),
        (StructField("n", LONG, metadata={"CURRENT_DEFAULT": "1"}), (), "CURRENT_DEFAULT"),
        (StructField("n", LONG, metadata={"delta.generationExpression": "1"}), (), "generationExpression"),
        (NEW, ("a",), "'a' is not a struct"),
        (NEW, ("gone",), "unknown column 'gone'"),
        (NEW, ("l", "key"), "unknown column 'l.key'"),
    ],
)
def test_a_column_that_cannot_be_added_is_refused(field: StructField, parent: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        add_column(NESTED, field, parent)


def test_a_new_column_leaves_the_ids_and_names_of_another_table_behind() -> None:
    other = mapped(struct(new=struct(x="long"))).fields[0]
    assert add_column(NESTED, other).fields[-1] == StructField("new", struct(x="long"))
    schema = merge_schema(mapped(struct(a="long")), mapped(struct(b="long", s=struct(x="long"))))
    assert schema == struct(*mapped(struct(a="long")), b="long", s=struct(x="long"))
    assert merge_schema(struct(n="void"), mapped(struct(n=struct(x="long")))) == struct(n=struct(x="long"))


# Renaming and dropping


def test_a_renamed_column_keeps_its_place_and_its_physical_name() -> None:
    schema = rename_column(mapped(NESTED), ("s", "X"), "z", **RENAME)
    assert at(schema, "s").names == ("z", "y")
    assert at(schema, "s").find("z").physical_name("name") == "col-3"
    assert rename_column(NESTED, ("a",), "A", **RENAME).names == ("A", "s", "l", "m")
    assert at(rename_column(NESTED, ("l", "element", "e"), "f", **RENAME), "l", "element").names == ("f",)


def test_a_dropped_column_is_gone() -> None:
    assert drop_column(NESTED, ("m",), **DROP).names == ("a", "s", "l")
    assert at(drop_column(NESTED, ("s", "x"), **DROP), "s").names == ("y",)


def test_renaming_and_dropping_need_column_mapping() -> None:
    with pytest.raises(ValueError, match=r"'s\.x' cannot be renamed without column mapping"):
        rename_column(NESTED, ("s", "x"), "z", mapping_mode="none", uses={})
    with pytest.raises(ValueError, match="'m' cannot be dropped without column mapping"):
        drop_column(NESTED, ("m",), mapping_mode="none", partition_columns=[], uses={})


def test_names_that_are_taken_and_columns_that_are_needed_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the column 's\.Y' already exists"):
        rename_column(NESTED, ("s", "x"), "Y", **RENAME)
    with pytest.raises(ValueError, match="partitioned by it"):
        drop_column(NESTED, ("A",), **DROP)
    with pytest.raises(ValueError, match="no other column would be left"):
        drop_column(NESTED, ("l", "element", "e"), **DROP)
    with pytest.raises(UnknownColumnError, match="gone"):
        drop_column(NESTED, ("gone",), **DROP)
    with pytest.raises(UnknownColumnError, match=r"a\.b"):
        rename_column(NESTED, ("a", "b"), "c", **RENAME)


@pytest.mark.parametrize("path", [("s",), ("S", "X")])
def test_a_column_in_a_constraint_is_refused_with_the_constraint(path: tuple[str, ...]) -> None:
    uses = {"the constraint 'positive'": [("s", "x")]}
    with pytest.raises(ValueError, match="cannot be dropped: the constraint 'positive' uses it"):
        drop_column(NESTED, path, mapping_mode="name", partition_columns=[], uses=uses)
    with pytest.raises(ValueError, match="cannot be renamed: the constraint 'positive' uses it"):
        rename_column(NESTED, path, "z", mapping_mode="name", uses=uses)
    assert at(drop_column(NESTED, ("s", "y"), mapping_mode="name", partition_columns=[], uses=uses), "s").names == (
        "x",
    )


# NOT NULL


def test_nulls_are_allowed_where_they_were_not() -> None:
    required = StructField("r", LONG, nullable=False)
    schema = struct(required, s=struct(required), l=ArrayType(LONG, False), m=MapType(STRING, LONG, False))
    for path in [("r",), ("s", "r"), ("l", "element"), ("m", "value")]:
        schema = relax_not_null(schema, path)
    nullable = StructField("r", LONG)
    assert schema == struct(nullable, s=struct(nullable), l=ArrayType(LONG), m=MapType(STRING, LONG))
    for path in [("gone",), ("m", "key"), ("r", "x")]:
        with pytest.raises(UnknownColumnError):
            relax_not_null(schema, path)


# Wider types


@pytest.mark.parametrize(
    ("path", "field", "recorded"),
    [
        (("i",), ("i",), {"fromType": "integer", "toType": "long"}),
        (("s", "i"), ("s", "i"), {"fromType": "integer", "toType": "long"}),
        (("l", "element"), ("l",), {"fromType": "integer", "toType": "long", "fieldPath": "element"}),
        (("m", "key"), ("m",), {"fromType": "integer", "toType": "long", "fieldPath": "key"}),
        (("n", "element", "value"), ("n",), {"fromType": "integer", "toType": "long", "fieldPath": "element.value"}),
        (("e", "element", "i"), ("e", "element", "i"), {"fromType": "integer", "toType": "long"}),
    ],
)
def test_a_wider_type_is_recorded_at_the_nearest_field(
    path: tuple[str, ...], field: tuple[str, ...], recorded: dict[str, str]
) -> None:
    schema = struct(
        i="integer",
        s=struct(i="integer"),
        l=ArrayType(INTEGER),
        m=MapType(INTEGER, INTEGER),
        n=ArrayType(MapType(STRING, INTEGER)),
        e=ArrayType(struct(i="integer")),
    )
    widened = widen_column(schema, path, LONG, enabled=True)
    assert at(widened, *path) == LONG
    assert changes(widened, *field) == [recorded]
    check_type_changes(widened, "/t")


def test_a_second_change_comes_after_the_first() -> None:
    schema = widen_column(struct(i="short"), ("i",), INTEGER, enabled=True)
    schema = widen_column(schema, ("i",), LONG, enabled=True)
    assert [(c["fromType"], c["toType"]) for c in changes(schema, "i")] == [("short", "integer"), ("integer", "long")]


@pytest.mark.parametrize(
    ("path", "to", "enabled", "message"),
    [
        (("a",), INTEGER, True, "from long to integer: it is not wider"),
        (("a",), STRING, True, "from long to string: it is not wider"),
        (("l", "element", "e"), LONG, False, "set delta.enableTypeWidening"),
        (("s",), LONG, True, "does not have a primitive type"),
        (("gone",), LONG, True, "unknown column"),
    ],
)
def test_a_type_that_cannot_change_is_refused(
    path: tuple[str, ...], to: PrimitiveType, enabled: bool, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        widen_column(NESTED, path, to, enabled=enabled)


def test_a_void_column_becomes_anything_without_a_record() -> None:
    assert widen_column(struct(n="void"), ("n",), STRING, enabled=False) == struct(n="string")
    assert widen_column(struct(n="long"), ("n",), LONG, enabled=False) == struct(n="long")


# Merging


def test_new_columns_come_last_and_nullable_at_every_level() -> None:
    required = StructField("r", LONG, nullable=False)
    data = struct(
        required,
        A="long",
        s=struct(w=struct(required), x="long"),
        l=ArrayType(struct(e="integer", n="long")),
        m=MapType(STRING, ArrayType(INTEGER), False),
    )
    r = StructField("r", LONG)
    assert merge_schema(NESTED, data) == StructType(
        (
            *struct(
                a="long",
                s=struct(x="long", y="string", w=struct(r)),
                l=ArrayType(struct(e="integer", n="long")),
                m=MapType(STRING, ArrayType(INTEGER)),
            ).fields,
            r,
        )
    )


def test_a_merge_keeps_the_tables_own_metadata_and_not_null() -> None:
    kept = StructField("a", LONG, nullable=False, metadata={"comment": "kept"})
    assert merge_schema(struct(kept, b="long"), struct(A="long", b="void")) == struct(kept, b="long")
    assert merge_schema(struct(a="void"), struct(a=NESTED)) == struct(a=NESTED)


@pytest.mark.parametrize(
    ("table", "data", "merged"),
    [
        ("integer", "long", "long"),
        ("long", "integer", "long"),
        ("float", "double", "double"),
        ("decimal(5,2)", "decimal(7,3)", "decimal(7,3)"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("integer", "double", "integer"),
        ("integer", "decimal(10,0)", "integer"),
        ("long", "string", "long"),
    ],
)
def test_a_type_is_widened_by_data_only_within_its_kind_and_if_allowed(table: str, data: str, merged: str) -> None:
    ours, theirs = struct(s=struct(c=table)), struct(s=struct(c=data))
    assert merge_schema(ours, theirs) == ours
    widened = merge_schema(ours, theirs, widen=True)
    assert at(widened, "s", "c") == PrimitiveType(merged)
    recorded = [{"fromType": table, "toType": merged}] if merged != table else None
    assert changes(widened, "s", "c") == recorded


def test_a_type_in_a_list_is_widened_with_its_path() -> None:
    data = struct(m=MapType(STRING, ArrayType(LONG)))
    widened = merge_schema(NESTED, data, widen=True)
    assert changes(widened, "m") == [{"fromType": "integer", "toType": "long", "fieldPath": "value.element"}]


@pytest.mark.parametrize(
    ("table", "data", "message"),
    [
        (LONG, struct(x="long"), "'c' is long in the table and a struct in the data"),
        (ArrayType(LONG), MapType(STRING, LONG), "'c' is a list in the table and a map in the data"),
        (ArrayType(struct(x="long")), ArrayType(LONG), r"'c\.element' is a struct in the table and long"),
    ],
)
def test_kinds_that_differ_are_refused(table: DataType, data: DataType, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        merge_schema(struct(c=table), struct(c=data))
