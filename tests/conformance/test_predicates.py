"""Hints by which a server leaves files out: it may keep too many, but never drop one with a row that matches."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest

from tests.conformance.roles import VALUES
from tests.conformance.target import DELTA, PARQUET, SharedTable, Target, both_formats

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "lessThan": operator.lt,
    "lessThanOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterThanOrEqual": operator.ge,
}
SQL = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "<>": operator.ne}

both_tables = pytest.mark.parametrize("role", ["typed", "typed_partitions"])
each_type = pytest.mark.parametrize("kind", list(VALUES))


_WRITTEN: dict[str, dict[str, int]] = {}


def positions(table: SharedTable, **body: Any) -> set[int]:
    """Which of the three files are left, by the order in which they were written."""
    where = f"{table.target.endpoint}/{table.path}"
    if where not in _WRITTEN:
        files = table.query(PARQUET, startingVersion=0).files
        _WRITTEN[where] = {file.body["id"]: file.body["version"] for file in files}
    return {_WRITTEN[where][file.body["id"]] for file in table.query(PARQUET, **body).files}


def assert_kept(table: SharedTable, matching: set[int], **body: Any) -> None:
    """Files with matching rows are left; on the suite's own server no others."""
    found = positions(table, **body)
    assert matching <= found
    if table.target.own:
        assert found == matching


def matching(kind: str, holds: Callable[[Any, Any], bool], literal: Any) -> set[int]:
    return {row for row, value in enumerate(VALUES[kind]) if value is not None and holds(value, literal)}


def text(value: Any) -> str:
    """A value as JSON predicates have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)


def column(kind: str) -> dict[str, Any]:
    return {"op": "column", "name": kind, "valueType": kind}


def literal(kind: str, value: Any) -> dict[str, Any]:
    return {"op": "literal", "value": text(value), "valueType": kind}


def op(name: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"op": name, "children": list(children)}


def hint(tree: Any) -> dict[str, str]:
    return {"jsonPredicateHints": json.dumps(tree)}


@pytest.mark.section("JSON predicates for Filtering")
@both_tables
@each_type
@pytest.mark.parametrize("name", list(COMPARISONS))
def test_comparisons(target: Target, role: str, kind: str, name: str) -> None:
    table = target.table(role)
    for value in VALUES[kind][:2]:
        assert_sound_or_exact(
            table, kind, matching(kind, COMPARISONS[name], value), op(name, column(kind), literal(kind, value))
        )


def assert_sound_or_exact(table: SharedTable, kind: str, kept: set[int], tree: dict[str, Any]) -> None:
    """Statistics have no bounds of booleans; times are compared as if they were rounded, as statistics of them are."""
    if kind == "timestamp" or (kind == "bool" and table.name == "typed"):
        assert kept <= positions(table, **hint(tree))
    else:
        assert_kept(table, kept, **hint(tree))


@pytest.mark.section("JSON predicates for Filtering")
@both_tables
@each_type
def test_the_literal_may_come_first(target: Target, role: str, kind: str) -> None:
    table = target.table(role)
    low = VALUES[kind][0]
    tree = op("lessThan", literal(kind, low), column(kind))
    assert_sound_or_exact(table, kind, matching(kind, operator.gt, low), tree)
    tree = op("greaterThanOrEqual", literal(kind, low), column(kind))
    assert_sound_or_exact(table, kind, matching(kind, operator.le, low), tree)


@pytest.mark.section("JSON predicates for Filtering")
@both_tables
@each_type
def test_nulls(target: Target, role: str, kind: str) -> None:
    table = target.table(role)
    assert_kept(table, {2}, **hint(op("isNull", column(kind))))
    assert_kept(table, {0, 1}, **hint(op("not", op("isNull", column(kind)))))


@pytest.mark.section("JSON predicates for Filtering")
@both_tables
@each_type
def test_negated_comparisons(target: Target, role: str, kind: str) -> None:
    table = target.table(role)
    low = VALUES[kind][0]
    for name, holds in COMPARISONS.items():
        kept = {0, 1} - matching(kind, holds, low)
        tree = op("not", op(name, column(kind), literal(kind, low)))
        assert kept <= positions(table, **hint(tree))


@pytest.mark.section("JSON predicates for Filtering")
@both_tables
def test_and_or_and_not_of_several(target: Target, role: str) -> None:
    table = target.table(role)
    is_low, is_high = (op("equal", column("long"), literal("long", VALUES["long"][row])) for row in (0, 1))
    unknown = op("isNull", column("date"))
    assert_kept(table, {0, 1}, **hint(op("or", is_low, is_high)))
    assert_kept(table, {0, 1, 2}, **hint(op("or", is_low, is_high, unknown)))
    assert_kept(table, set(), **hint(op("and", is_low, is_high)))
    assert_kept(table, {1}, **hint(op("and", is_high, op("not", unknown), op("not", is_low))))


@pytest.mark.section("JSON predicates for Filtering")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"equal"',
        json.dumps({"op": "someday", "children": []}),
        json.dumps(op("equal", column("long"))),
        json.dumps(op("equal", {"op": "column", "name": "absent", "valueType": "int"}, literal("int", 1))),
        json.dumps(op("equal", column("long"), {"op": "literal", "value": "many", "valueType": "long"})),
        json.dumps(op("equal", column("long"), {"op": "literal", "value": "1", "valueType": "someday"})),
        json.dumps(op("and", op("isNull", column("long")))),
        '{"op":"not","children":[' * 3000 + "1" + "]}" * 3000,
    ],
)
def test_a_hint_that_makes_no_sense_is_ignored(target: Target, text: str) -> None:
    for role in ("typed", "typed_partitions"):
        assert positions(target.table(role), jsonPredicateHints=text) == {0, 1, 2}


@pytest.mark.section("JSON predicates for Filtering", "Request Body")
@both_formats
def test_hints_are_for_older_versions_too(plain: SharedTable, capabilities: str) -> None:
    tree = op("equal", {"op": "column", "name": "day", "valueType": "date"}, literal("date", date(2026, 1, 2)))
    files = plain.query(capabilities, version=1, **hint(tree)).files
    days = [file.action["partitionValues"]["day"] for file in files]
    assert days.count("2026-01-02") == 2
    if plain.target.own:
        assert len(days) == 2


@pytest.mark.section("JSON predicates for Filtering")
def test_columns_are_named_as_readers_see_them(mapped: SharedTable) -> None:
    day = op("equal", {"op": "column", "name": "day", "valueType": "date"}, literal("date", date(2026, 1, 2)))
    total = op("greaterThan", {"op": "column", "name": "Sum total", "valueType": "double"}, literal("double", 9e9))
    assert mapped.query(DELTA, **hint(day)).files
    if mapped.target.own:
        assert len(mapped.query(DELTA, **hint(day)).files) < len(mapped.query(DELTA).files)
        assert mapped.query(DELTA, **hint(total)).files == []


def sql_text(kind: str, value: Any) -> str:
    if kind in ("date", "timestamp"):
        return f"'{text(value)}'"
    return f"'{value}'" if kind == "string" else text(value)


@pytest.mark.section("SQL Expressions for Filtering")
@both_tables
@each_type
@pytest.mark.parametrize("sign", list(SQL))
def test_sql_comparisons(target: Target, role: str, kind: str, sign: str) -> None:
    table = target.table(role)
    for value in VALUES[kind][:2]:
        kept = matching(kind, SQL[sign], value)
        assert kept <= positions(table, predicateHints=[f"`{kind}` {sign} {sql_text(kind, value)}"])


@pytest.mark.section("SQL Expressions for Filtering")
@both_tables
def test_sql_comparisons_of_the_document(target: Target, role: str) -> None:
    table = target.table(role)
    assert_kept(table, {1}, predicateHints=["long = 1099511627776"])
    assert_kept(table, {1}, predicateHints=["string > 'apple'"])
    assert_kept(table, {1}, predicateHints=["'apple' < string"])
    assert_kept(table, {1}, predicateHints=["long >= 123"])
    assert_kept(table, {1}, predicateHints=["123 <= long"])
    assert 1 in positions(table, predicateHints=["string <> 'apple'"])
    assert_kept(table, {2}, predicateHints=["string IS NULL"])
    assert_kept(table, {0, 1}, predicateHints=["string IS NOT NULL"])


@pytest.mark.section("SQL Expressions for Filtering", "Request Body")
@both_tables
def test_sql_expressions_are_all_to_hold(target: Target, role: str) -> None:
    table = target.table(role)
    assert_kept(table, {1}, predicateHints=["long > 0", "string IS NOT NULL"])
    assert_kept(table, set(), predicateHints=["long > 0", "long < 0"])
    assert positions(table, predicateHints=[]) == {0, 1, 2}


@pytest.mark.section("SQL Expressions for Filtering", "Request Body")
@both_tables
@pytest.mark.parametrize("text", ["", "not sql ((", "absent = 1", "long = 'many'", "1; DROP TABLE x", "f(long) = 1"])
def test_an_expression_that_makes_no_sense_is_skipped_and_the_others_are_not(
    target: Target, role: str, text: str
) -> None:
    table = target.table(role)
    assert {0, 1} <= positions(table, predicateHints=[text])
    found = positions(table, predicateHints=[text, "string = 'pear'"])
    assert 1 in found
    assert not target.own or 0 not in found


@pytest.mark.section("Request Body")
def test_both_kinds_of_hints_are_used_together(target: Target) -> None:
    tree = op("not", op("isNull", column("long")))
    assert_kept(target.table("typed"), {1}, predicateHints=["string > 'apple'"], **hint(tree))


@pytest.mark.section("Request Body")
@pytest.mark.parametrize("limit", [1, 2])
def test_the_limit_comes_after_the_predicates(plain: SharedTable, limit: int) -> None:
    """A file is left that has matching rows, though others come before it that have rows enough."""
    for hints in (
        {"predicateHints": ["day = '2026-01-02'"]},
        {"predicateHints": ["id = 17"]},
        {"predicateHints": ["id >= 16", "not sql (("]},
    ):
        files = plain.query(PARQUET, limitHint=limit, **hints).files
        ids = [json.loads(file.body["stats"])["maxValues"]["id"] for file in files]
        days = [file.body["partitionValues"]["day"] for file in files]
        if "day" in hints["predicateHints"][0]:
            assert "2026-01-02" in days
        else:
            assert 17 in ids
