"""No change makes a table into what no table can be; what another writer has made of it may stay."""

import json
from typing import Any

import pytest

from lakeport.engine import memory_engine
from lakeport.kernel.definition import TableDefinition, define_table
from lakeport.kernel.schema import ArrayType, PrimitiveType, StructField, StructType
from lakeport.testing.builder import TableBuilder, protocol, struct
from tests.properties import FEED, TRACKING

SUSPENDED = {"delta.rowTrackingSuspended": "true"}
LEGACY = protocol(2, 6)
FEED_NAMES = ["_change_type", "_commit_version", "_Commit_Timestamp"]
TRACKING_NAMES = ["_row_id", "_row_commit_version"]


def new(schema: StructType, properties: dict[str, str] | None = None) -> TableDefinition:
    return define_table("t", schema, (), properties, created=1)


def of_another_writer(schema: StructType, properties: dict[str, str], action: Any = LEGACY) -> TableDefinition:
    table = TableBuilder(memory_engine(), "memory://table", schema, (), properties, action)
    return table.create().snapshot().definition


def generated(name: str, sql: str, kind: str = "long") -> StructField:
    return StructField(name, PrimitiveType(kind), metadata={"delta.generationExpression": sql})


def with_column(schema: StructType, **types: str) -> StructType:
    return struct(*schema.fields, **types)


# Names


@pytest.mark.parametrize(
    ("names", "properties"), [(["__lakeport_row_index"], {}), (FEED_NAMES, FEED), (TRACKING_NAMES, TRACKING)]
)
def test_names_that_are_kept_for_others_are_refused(names: list[str], properties: dict[str, str]) -> None:
    for name in names:
        with pytest.raises(ValueError, match=f"cannot be called '{name}'.* rename it"):
            new(struct(id="long", **{name: "long"}), properties)
        definition = new(struct(id="long"), properties)
        with pytest.raises(ValueError, match=f"cannot be called '{name}'"):
            definition.with_schema(with_column(definition.schema, **{name: "long"}))
        nested = struct(id="long", at=struct(**{name: "long"}))
        assert new(nested, properties).schema == nested


@pytest.mark.parametrize(("names", "properties"), [(FEED_NAMES, FEED), (TRACKING_NAMES, TRACKING)])
def test_what_keeps_a_name_is_not_switched_on_while_a_column_has_it(
    names: list[str], properties: dict[str, str]
) -> None:
    for name in names:
        taken = new(struct(id="long", **{name: "long"}))
        with pytest.raises(ValueError, match=f"cannot be called '{name}'"):
            taken.with_properties(properties)


@pytest.mark.parametrize(("name", "properties"), [("__lakeport_row_index", {}), ("_change_type", FEED)])
def test_a_table_that_has_such_a_column_can_be_changed_in_other_respects(name: str, properties: dict[str, str]) -> None:
    theirs = of_another_writer(struct(id="long", **{name: "long"}), properties)
    assert theirs.with_properties({"user.a": "1"}).metadata.configuration == {**properties, "user.a": "1"}
    assert theirs.with_schema(with_column(theirs.schema, more="long")).schema.names == ("id", name, "more")
    assert theirs.with_schema(struct(id="long")).schema.names == ("id",)
    with pytest.raises(ValueError, match="'_row_id'"):
        theirs.with_schema(with_column(theirs.schema, _row_id="long")).with_properties(TRACKING)


# Row tracking


def test_row_tracking_is_not_on_while_it_is_suspended() -> None:
    with pytest.raises(ValueError, match="cannot both be true"):
        new(struct(id="long"), TRACKING | SUSPENDED)
    with pytest.raises(ValueError, match="cannot both be true"):
        new(struct(id="long"), TRACKING).with_properties({"delta.rowTrackingSuspended": "TRUE"})
    both_said = TRACKING | {"delta.rowTrackingSuspended": "false"}
    assert both_said.items() <= new(struct(id="long"), both_said).metadata.configuration.items()


# Clustering


def test_a_table_is_not_both_partitioned_and_clustered() -> None:
    partitioned = define_table("t", struct(a="long", b="long"), ["a"], created=1)
    with pytest.raises(ValueError, match="either partitioned or clustered"):
        partitioned.clustered_by(["b"])


def test_the_columns_that_a_table_is_clustered_by_stay() -> None:
    schema = struct(id="long", at=struct(x="long", y="long"))
    clustered = new(schema, {"delta.columnMapping.mode": "name"}).clustered_by(["at.x"])
    at = clustered.schema.fields[1]
    assert isinstance(at.type, StructType)
    without = StructType(
        (clustered.schema.fields[0], StructField("at", StructType(at.type.fields[1:]), True, at.metadata))
    )
    with pytest.raises(ValueError, match="clustered by a column that it would no longer have"):
        clustered.with_schema(without)


# SQL


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("nothing > 1", "unknown column 'nothing'"),
        ("id >", "expression"),
        ("id + 1", "not a condition"),
        ("id > 'x'", "does not fit"),
        ("theirs(id)", "not supported"),
    ],
)
def test_a_constraint_that_cannot_be_checked_is_refused(sql: str, reason: str) -> None:
    with pytest.raises(
        ValueError, match=r"(?s)the constraint 'c' \(.*does not fit the columns.* drop it first"
    ) as caught:
        new(struct(id="long"), {"delta.constraints.c": sql})
    assert reason in str(caught.value)
    with pytest.raises(ValueError, match="the constraint 'c'"):
        of_another_writer(struct(id="long"), {}).with_properties({"delta.constraints.c": sql})
    fitting = {"delta.constraints.c": "id > 0 AND current_date() > DATE '2020-01-01'"}
    assert new(struct(id="long"), fitting).metadata.configuration == fitting


def test_a_generated_column_that_cannot_be_worked_out_is_refused() -> None:
    for sql in ("nothing + 1", "id +", "'text'", "theirs(id)"):
        with pytest.raises(ValueError, match=r"(?s)the generated column 'g' \(.*does not fit the columns"):
            new(struct(generated("g", sql), id="long"))
    with pytest.raises(ValueError, match=r"the generated column 'g' .* uses the generated column 'h'"):
        new(struct(generated("g", "h + 1"), generated("h", "id + 1"), id="long"))
    with pytest.raises(ValueError, match=r"the generated column 'g' .* uses the generated column 'g'"):
        new(struct(generated("g", "g + 1"), id="long"))
    with pytest.raises(ValueError, match=r"the generated column 's\.g' is nested"):
        new(struct(id="long", s=struct(generated("g", "id + 1"))))


def test_an_invariant_that_cannot_be_checked_is_refused() -> None:
    def invariant(sql: str) -> StructField:
        text = json.dumps({"expression": {"expression": sql}})
        return StructField("v", PrimitiveType("long"), metadata={"delta.invariants": text})

    fitting = struct(s=struct(invariant("s.v > 1")))
    assert new(fitting).schema == fitting
    with pytest.raises(ValueError, match=r"the invariant of 's\.v' \(v > 1\) does not fit"):
        new(struct(s=struct(invariant("v > 1"))))
    with pytest.raises(ValueError, match=r"the invariant of 'l\.element\.v' is in a list"):
        new(struct(l=ArrayType(struct(invariant("l.v > 1")))))
    with pytest.raises(ValueError, match=r"delta\.invariants of 'v' is not valid"):
        new(struct(StructField("v", PrimitiveType("long"), metadata={"delta.invariants": "v > 1"})))


@pytest.mark.parametrize("sql", ["theirs(id)", "nothing > 1"])
def test_a_table_whose_sql_is_not_understood_can_be_changed_in_other_respects(sql: str) -> None:
    schema = struct(generated("g", f"if({sql}, 1, 2)"), id="integer", other="integer")
    theirs = of_another_writer(schema, {"delta.constraints.c": sql})
    assert theirs.with_properties({"user.a": "1"}).metadata.configuration["user.a"] == "1"
    assert theirs.with_schema(with_column(schema, more="long")).schema.names[-1] == "more"
    assert theirs.with_schema(struct(*schema.fields[:2])).schema.names == ("g", "id")
    dropped = theirs.with_properties({}, unset=["delta.constraints.c"])
    assert dropped.metadata.configuration == {}


def test_sql_that_is_not_understood_must_not_lose_its_columns() -> None:
    theirs = of_another_writer(struct(id="long", other="long"), {"delta.constraints.c": "theirs(id)"})
    with pytest.raises(ValueError, match=r"the constraint 'c' \(theirs\(id\)\) does not fit"):
        theirs.with_schema(struct(other="long"))
    with pytest.raises(ValueError, match=r"the constraint 'c' \(theirs\(id\)\) does not fit"):
        theirs.with_schema(struct(id="string", other="long"))


def test_a_constraint_must_fit_the_columns_that_a_table_gets() -> None:
    before = new(struct(a="integer", b="long"), {"delta.constraints.c": "b > 0"})
    known = definition_with_before(before)
    with pytest.raises(ValueError, match=r"the constraint 'c' \(b > 0\) does not fit .*unknown column 'b'"):
        known.with_schema(struct(a="integer"))
    with pytest.raises(ValueError, match=r"the constraint 'c' \(b > 0\) does not fit"):
        known.with_schema(struct(a="integer", b="date"))
    assert known.with_schema(struct(b="double")).schema == struct(b="double")


def test_the_columns_in_a_generated_column_keep_their_types() -> None:
    schema = struct(generated("g", "a + s.x", "integer"), a="integer", b="integer", s=struct(x="integer"))
    known = definition_with_before(new(schema))
    for retyped in (
        struct(a="long", b="integer", s=struct(x="integer")),
        struct(a="integer", b="integer", s=struct(x="long")),
    ):
        with pytest.raises(
            ValueError, match=r"the type of the column '(a|s\.x)' cannot be changed: the generated column"
        ):
            known.with_schema(struct(schema.fields[0], *retyped.fields))
    other = struct(schema.fields[0], a="integer", b="long", s=struct(x="integer", y="long"))
    assert known.with_schema(other).schema == other


def definition_with_before(definition: TableDefinition) -> TableDefinition:
    """The definition of a table that exists."""
    configuration = {n: v for n, v in definition.metadata.configuration.items() if v is not None}
    return of_another_writer(definition.schema, configuration)
