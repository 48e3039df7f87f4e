"""`parse_json_predicate`: never a file too few, and as few as the statistics allow."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.engine import memory_engine
from lakeport.errors import InvalidFilterError, UnknownColumnError
from lakeport.kernel.schema import StructField, StructType
from lakeport.sharing.predicates import parse_json_predicate
from lakeport.testing.builder import TableBuilder, struct
from tests.examples import examples
from tests.sharing.predicates.hinted_tables import PARTITION_COLUMNS, three_files
from tests.sharing.predicates.hints import LITERALS, VALUE_TYPES, hints, kept, matches, nan_partition, tables, to_json


@pytest.mark.parametrize("value_type", LITERALS)
@examples(60)
@given(data=st.data())
def test_no_file_with_a_matching_row_is_dropped(value_type: str, data: st.DataObject) -> None:
    kinds = [kind for kind, value_types in VALUE_TYPES.items() if value_type in value_types]
    snapshot, files = data.draw(tables(kinds))
    for hint in data.draw(st.lists(hints(value_type), min_size=10, max_size=10)):
        predicate = parse_json_predicate(to_json(hint), snapshot.schema, PARTITION_COLUMNS)
        found = {name for name, rows in files.items() if any(matches(hint, row) for row in rows)}
        assert found <= kept(snapshot, predicate)


# What is dropped


def column(name: str, value_type: str) -> dict[str, Any]:
    return {"op": "column", "name": name, "valueType": value_type}


def literal(value: Any, value_type: str) -> dict[str, Any]:
    return {"op": "literal", "value": value, "valueType": value_type}


def op(name: str, *children: Any) -> dict[str, Any]:
    return {"op": name, "children": list(children)}


ID, PART, NAME = column("id", "long"), column("part", "int"), column("name", "string")


def long(value: int) -> dict[str, Any]:
    return literal(str(value), "long")


@pytest.mark.parametrize(
    ("hint", "files"),
    [
        (op("equal", ID, long(13)), "1"),
        (op("equal", long(13), ID), "1"),
        (op("lessThan", ID, long(10)), "0"),
        (op("lessThan", long(10), ID), "12"),
        (op("lessThanOrEqual", ID, long(10)), "01"),
        (op("greaterThan", ID, long(19)), "2"),
        (op("greaterThanOrEqual", ID, long(19)), "12"),
        (op("greaterThanOrEqual", long(9), ID), "0"),
        (op("not", op("lessThan", ID, long(10))), "12"),
        (op("not", op("greaterThan", ID, long(9))), "02"),
        (op("not", op("not", op("equal", ID, long(13)))), "1"),
        (op("isNull", ID), "2"),
        (op("not", op("isNull", ID)), "012"),
        (op("equal", column("ID", "int"), literal("13", "int")), "1"),
        (op("equal", NAME, literal("n09", "string")), "0"),
        (op("greaterThan", column("price", "double"), literal("9.5", "double")), "2"),
        (op("lessThan", column("price", "float"), literal("4.9", "float")), "0"),
        (op("and", op("greaterThan", ID, long(3)), op("lessThan", ID, long(12))), "01"),
        (op("or", op("equal", ID, long(3)), op("equal", ID, long(23)), op("equal", ID, long(99))), "02"),
        (op("not", op("or", op("lessThan", ID, long(10)), op("isNull", ID))), "12"),
        (op("equal", PART, literal(1, "int")), "1"),
        (op("not", op("equal", PART, literal("1", "int"))), "02"),
        (op("equal", PART, PART), "012"),
        (op("lessThan", PART, PART), ""),
        (column("flag", "bool"), "1"),
        (op("not", column("flag", "bool")), "02"),
        (op("equal", column("flag", "bool"), literal(True, "bool")), "1"),
        (literal("false", "bool"), ""),
        (op("not", literal("false", "bool")), "012"),
        (op("lessThan", long(1), long(2)), "012"),
        (op("greaterThan", literal("a", "string"), literal("b", "string")), ""),
        (op("lessThan", literal("2026-01-01", "date"), literal("12345-01-01", "date")), "012"),
        (op("isNull", long(1)), ""),
        (op("and", {"op": "UnsupportedOp"}, op("equal", ID, long(13))), "1"),
        (op("not", op("and", {"op": "unsupported"}, op("equal", ID, long(13)))), "012"),
    ],
)
def test_files_that_cannot_match_are_dropped(hint: Any, files: str) -> None:
    snapshot = three_files()
    predicate = parse_json_predicate(json.dumps(hint), snapshot.schema, ["part", "flag"])
    assert kept(snapshot, predicate) == {f"{number}.parquet" for number in files}


# What is refused


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("", "is invalid"),
        ("not json", "is invalid"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `op`"),
        ('{"op": 1}', "Expected `str`"),
        ({"op": "like"}, "unknown operation: 'like'"),
        (op("and", op("isNull", ID)), "'and' has 1 children; it takes 2 or more"),
        (op("not"), "'not' has 0 children; it takes 1"),
        (op("equal", ID, long(1), long(2)), "'equal' has 3 children; it takes 2"),
        (op("equal", ID, op("isNull", ID)), "'isNull' cannot be compared"),
        (op("equal", ID, literal("1", "int")), "type long cannot be compared with type int"),
        (op("equal", column("id", "decimal"), long(1)), "valueType 'decimal'; use one of bool"),
        (op("isNull", {"op": "column", "name": "id"}), "valueType ''"),
        (op("isNull", {"op": "column", "valueType": "int"}), "no name"),
        (op("equal", column("name", "int"), literal("1", "int")), "'name' has type string, not valueType int"),
        (op("equal", column("id", "string"), literal("1", "string")), "not valueType string"),
        (op("equal", column("id", "double"), literal("1", "double")), "not valueType double"),
        (op("isNull", column("at", "date")), "not valueType date"),
        (op("equal", PART, literal(None, "int")), "no value"),
        (op("equal", PART, literal("one", "int")), "'one' is not a valid int"),
        (op("equal", PART, literal("3000000000", "int")), "out of the range"),
        (op("equal", column("flag", "bool"), literal("yes", "bool")), "expected true or false"),
        (op("equal", column("at", "timestamp"), literal("2026-01-01T00:00:00", "timestamp")), "no time zone"),
        (op("equal", column("at", "timestamp"), literal("2026-01-01", "timestamp")), "no time zone"),
        (PART, "a value of type int is not a condition"),
    ],
)
def test_what_cannot_be_used_is_refused(hint: Any, reason: str) -> None:
    with pytest.raises(InvalidFilterError) as refused:
        parse_json_predicate(hint if isinstance(hint, str) else json.dumps(hint), three_files().schema)
    assert reason in str(refused.value)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UnknownColumnError, match="ident"):
        parse_json_predicate(json.dumps(op("isNull", column("ident", "int"))), three_files().schema)


@pytest.mark.parametrize("depth", [101, 900, 10_000, 1_000_000])
def test_absurd_nesting_is_refused(depth: int) -> None:
    text = '{"op":"not","children":[' * depth + json.dumps(op("isNull", ID)) + "]}" * depth
    with pytest.raises(InvalidFilterError, match="too large"):
        parse_json_predicate(text, three_files().schema)


def test_sane_nesting_is_read() -> None:
    hint = op("equal", ID, long(13))
    for _ in range(48):
        hint = op("not", op("and", hint, hint) if _ % 16 == 0 else hint)
    snapshot = three_files()
    assert kept(snapshot, parse_json_predicate(json.dumps(hint), snapshot.schema)) == {"1.parquet"}


def test_a_long_list_is_read_and_a_longer_one_refused() -> None:
    snapshot = three_files()
    some = op("or", *(op("equal", ID, long(n)) for n in range(1000, 1600)))
    assert kept(snapshot, parse_json_predicate(json.dumps(some), snapshot.schema)) == set()
    many = op("or", *(op("equal", ID, long(n)) for n in range(10_000)))
    with pytest.raises(InvalidFilterError, match="too large"):
        parse_json_predicate(json.dumps(many), snapshot.schema)


# What has more than one reading


def test_a_timestamp_that_a_client_has_cut_is_not_taken_literally() -> None:
    schema = struct(at="timestamp")
    table = TableBuilder(memory_engine(), "memory:///t", schema).create()
    table.commit(table.add({"at": [datetime(2026, 1, 1, 0, 0, 0, 123100, tzinfo=UTC)]}, name="0.parquet"))
    before = op("lessThan", column("at", "timestamp"), literal("2026-01-01T00:00:00.123Z", "timestamp"))
    long_before = op("lessThan", column("at", "timestamp"), literal("2026-01-01T00:00:00.120Z", "timestamp"))
    snapshot = table.snapshot()
    assert kept(snapshot, parse_json_predicate(json.dumps(before), schema)) == {"0.parquet"}
    assert kept(snapshot, parse_json_predicate(json.dumps(long_before), schema)) == set()


@pytest.mark.parametrize(
    ("name", "value", "files"),
    [
        ("equal", "-0044-03-15", "0"),
        ("greaterThan", "+10000-01-01", "2"),
        ("lessThan", "11111-01-01", "01"),
    ],
)
def test_years_that_have_a_sign_are_read(name: str, value: str, files: str) -> None:
    schema = struct(id="integer", day="date", at="timestamp")
    table = TableBuilder(memory_engine(), "memory:///t", schema, ["day", "at"]).create()
    for number, text in enumerate(["-0044-03-15", "2026-01-01", "+12345-01-01"]):
        partition = {"day": text, "at": f"{text}T00:00:00.0005Z"}
        table.commit(table.add({"id": [1]}, partition, name=f"{number}.parquet"))
    snapshot = table.snapshot()
    for hint in (
        op(name, column("day", "date"), literal(value, "date")),
        op(name, column("at", "timestamp"), literal(f"{value}T00:00:00Z", "timestamp")),
    ):
        predicate = parse_json_predicate(json.dumps(hint), snapshot.schema, ["day", "at"])
        assert kept(snapshot, predicate) == {f"{number}.parquet" for number in files}


def test_a_string_in_a_language_is_compared_by_none_of_our_rules() -> None:
    schema = StructType((StructField("c", struct(c="string").fields[0].type, True, {"__COLLATIONS": {"c": "x"}}),))
    table = TableBuilder(memory_engine(), "memory:///t", schema).create()
    table.commit(table.add({"c": ["a"]}, name="0.parquet"))
    hint = op("equal", column("c", "string"), literal("A", "string"))
    assert kept(table.snapshot(), parse_json_predicate(json.dumps(hint), schema)) == {"0.parquet"}


def test_a_name_with_a_dot_is_a_column_before_it_is_a_path() -> None:
    schema = struct(*struct(**{"a.b": "integer"}), a=struct(b="integer"))
    table = TableBuilder(memory_engine(), "memory:///t", schema).create()
    table.commit(table.add({"a.b": [1], "a": [{"b": 2}]}, name="0.parquet"))
    for name, value, files in (("a.b", "1", {"0.parquet"}), ("a.b", "2", set()), ("`a`.b", "2", {"0.parquet"})):
        hint = op("equal", column(name, "int"), literal(value, "int"))
        assert kept(table.snapshot(), parse_json_predicate(json.dumps(hint), schema)) == files


@pytest.mark.parametrize(
    ("name", "value", "files"),
    [
        ("greaterThan", "5", "0"),
        ("greaterThanOrEqual", "1", "01"),
        ("lessThan", "0", "0"),
        ("equal", "1", "01"),
        ("equal", "NaN", "01"),
        ("lessThan", "NaN", "01"),
        ("greaterThanOrEqual", "NaN", "01"),
    ],
)
def test_nan_is_in_no_order_or_the_greatest_number(name: str, value: str, files: str) -> None:
    snapshot = nan_partition()
    hint = op(name, column("p", "double"), literal(value, "double"))
    predicate = parse_json_predicate(json.dumps(hint), snapshot.schema, ["p"])
    assert kept(snapshot, predicate) == {f"{number}.parquet" for number in files}
