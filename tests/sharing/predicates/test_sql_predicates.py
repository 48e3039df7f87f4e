"""`parse_sql_predicate`: the SQL of Spark's client and of people, for the widest that it can mean."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.engine import memory_engine
from lakeport.errors import InvalidFilterError, UnknownColumnError
from lakeport.kernel.snapshot import Snapshot
from lakeport.sharing.predicates import parse_sql_predicate
from lakeport.testing.builder import TableBuilder, struct
from tests.examples import examples
from tests.sharing.predicates.hinted_tables import PARTITION_COLUMNS, three_files
from tests.sharing.predicates.hints import COLUMNS, DAY, VALUES, Row, compare, kept, nan_partition, tables

OPS = {
    **{"=": "equal", "<": "lessThan", "<=": "lessThanOrEqual", ">": "greaterThan", ">=": "greaterThanOrEqual"},
    "<>": "different",
}
Condition = tuple[str, tuple[Any, ...]]
"""What to do, and with what: ("and", (left, right)), ("not", (inner,)), ("<", (column, value)) …"""


@st.composite
def conditions(draw: st.DrawFn, of: str, depth: int = 2) -> Condition:
    """A condition on columns of one type."""
    kind = draw(st.integers(0, 7))
    if depth and kind < 3:
        left, right = draw(conditions(of, depth - 1)), draw(conditions(of, depth - 1))
        return [("not", (left,)), ("and", (left, right)), ("or", (left, right))][kind]
    column = draw(st.sampled_from([name for name, kind in COLUMNS.items() if kind == of]))
    values = VALUES[of]
    if kind == 7:
        return "is null", (column,)
    if kind == 6:
        return "in", (column, draw(st.lists(values | st.none(), min_size=1, max_size=3)))
    return draw(st.sampled_from(list(OPS))), (column, draw(values | st.none()))


def to_sql(condition: Condition) -> str:
    op, parts = condition
    match op:
        case "not":
            return f"NOT ({to_sql(parts[0])})"
        case "and" | "or":
            return f"({to_sql(parts[0])} {op.upper()} {to_sql(parts[1])})"
        case "is null":
            return f"{parts[0]} IS NULL"
        case "in":
            return f"{parts[0]} IN ({', '.join(map(literal, parts[1]))})"
    return f"{parts[0]} {op} {literal(parts[1])}"


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case int():
            return str(value)
        case datetime():  # as the clock of the client shows it
            return f"TIMESTAMP '{value.replace(tzinfo=None)}'"
        case date():
            return f"DATE '{value}'"
    return f"'{value}'"


def is_true(condition: Condition, row: Row, nan_is_greatest: bool, offset: timedelta) -> bool | None:
    op, parts = condition
    match op:
        case "not":
            value = is_true(parts[0], row, nan_is_greatest, offset)
            return None if value is None else not value
        case "and" | "or":
            sides = {is_true(part, row, nan_is_greatest, offset) for part in parts}
            decisive = op == "or"
            return decisive if decisive in sides else None if None in sides else not decisive
        case "is null":
            return row[parts[0]] is None
        case "in":
            found = [is_true(("=", (parts[0], value)), row, nan_is_greatest, offset) for value in parts[1]]
            return True if True in found else None if None in found else False
    left, right = row[parts[0]], parts[1]
    if left is None or right is None:
        return None
    if isinstance(right, datetime):
        right += offset
    if op == "<>":
        return not compare("equal", left, right, nan_is_greatest)
    return compare(OPS[op], left, right, nan_is_greatest)


@pytest.mark.parametrize("kind", VALUES)
@examples(60)
@given(data=st.data())
def test_no_file_with_a_matching_row_is_dropped(kind: str, data: st.DataObject) -> None:
    snapshot, files = data.draw(tables([kind]))
    offset = timedelta(hours=data.draw(st.integers(-18, 18)))
    for condition in data.draw(st.lists(conditions(kind), min_size=10, max_size=10)):
        predicate = parse_sql_predicate(to_sql(condition), snapshot.schema, PARTITION_COLUMNS)
        found = {name for name, rows in files.items() if any(matches(condition, row, offset) for row in rows)}
        assert found <= kept(snapshot, predicate)


def matches(condition: Condition, row: Row, offset: timedelta) -> bool:
    return any(is_true(condition, row, nan_is_greatest, offset) is True for nan_is_greatest in (True, False))


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("id = 13", "1"),
        ("13 = id", "1"),
        ("10 > id", "0"),
        ("(`id` >= 10) AND ID < 20", "1"),
        ("id <> 3", "012"),
        ("NOT id < 10", "12"),
        ("id IS NULL", "2"),
        ("id IS NOT NULL", "012"),
        ("id IN (3, 23)", "02"),
        ("id BETWEEN 9 AND 10", "01"),
        ("name LIKE 'n1%'", "1"),
        ("name = 'n09'", "0"),
        ("price > 9.5", "2"),
        ("part = 1", "1"),
        ("part <> 1", "02"),
        ("flag", "1"),
        ("NOT flag", "02"),
        ("id = 13 OR part = 2", "12"),
        ("CAST(part AS BIGINT) = 1", "012"),
        ("id % 2 = 0 AND id = 13", "1"),
        ("NOT (id % 2 = 0 AND id = 13)", "012"),
        ("10 / part > 1", "012"),
        ("part = NULL", ""),
        ("FALSE", ""),
        ("TRUE", "012"),
        ("id = 13.5", ""),
    ],
)
def test_files_that_cannot_match_are_dropped(text: str, files: str) -> None:
    snapshot = three_files()
    predicate = parse_sql_predicate(text, snapshot.schema, ["part", "flag"])
    assert kept(snapshot, predicate) == {f"{number}.parquet" for number in files}


def days() -> Snapshot:
    schema = struct(at="timestamp", id="integer", day="date")
    table = TableBuilder(memory_engine(), "memory:///t", schema, ["day"]).create()
    for n in range(10):
        at = DAY + timedelta(days=n)
        table.commit(table.add({"at": [at], "id": [n]}, {"day": str(at.date())}, name=f"{n}.parquet"))
    return table.snapshot()


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("day >= '2026-01-09'", "89"),
        ("(day >= DATE '2026-01-09')", "89"),
        ("(day = CAST('2026-01-03' AS DATE))", "2"),
        ("day IN ('2026-01-03', '2026-01-04')", "23"),
        ("at >= TIMESTAMP '2026-01-09 12:00:00'", "89"),
        ("at < '2026-01-02 12:00:00'", "012"),
        ("NOT at >= '2026-01-02 12:00:00'", "012"),
        ("at = '2026-01-05'", "4"),
        ("at <> '2026-01-05'", "0123456789"),
        ("at IN (TIMESTAMP '2026-01-05 00:00:00')", "0123456789"),
        ("day > TIMESTAMP '2026-01-09 12:00:00'", "0123456789"),
        ("year(day) = 1999", "0123456789"),
    ],
)
def test_days_are_the_same_everywhere_and_times_are_not(text: str, files: str) -> None:
    snapshot = days()
    assert kept(snapshot, parse_sql_predicate(text, snapshot.schema, ["day"])) == {f"{n}.parquet" for n in files}


@pytest.mark.parametrize(
    "text",
    ["", "id =", "id LIKE 3", "name = 3", "id", "id = 'one'", "id IN (SELECT 1)", "'id' = 1", "id = 1; DROP TABLE t"],
)
def test_what_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilterError):
        parse_sql_predicate(text, three_files().schema)


def test_an_unknown_column_is_refused_also_where_it_does_not_count() -> None:
    for text in ("ident = 1", "abs(ident) = 1 AND id = 2"):
        with pytest.raises(UnknownColumnError, match="ident"):
            parse_sql_predicate(text, three_files().schema)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "id = 1" + ")" * 10_000,
        "NOT " * 10_000 + "flag",
        "NOT " * 250 + "flag",
        " OR ".join(f"id = {n}" for n in range(10_000)),
        "id IN (" + ", ".join(map(str, range(10_000))) + ")",
        "id = 1 AND (" * 3_000 + "flag" + ")" * 3_000,
    ],
)
def test_what_is_absurdly_deep_or_long_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilterError, match=r"too deeply|too large"):
        parse_sql_predicate(text, three_files().schema)


@pytest.mark.parametrize("text", ["at > '9999-12-31 23:59:59'", "at < '0001-01-01 00:00:00'"])
def test_the_ends_of_time_decide_nothing(text: str) -> None:
    snapshot = days()
    assert len(kept(snapshot, parse_sql_predicate(text, snapshot.schema))) == 10


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("p > 5", "0"),
        ("p = 1", "01"),
        ("NOT p > 5", "01"),
        ("p = CAST('NaN' AS DOUBLE)", "01"),
        ("p = 'NaN'", "01"),
        ("p IN (5, CAST('NaN' AS DOUBLE))", "01"),
        ("p < CAST('NaN' AS DOUBLE)", "01"),
    ],
)
def test_nan_is_in_no_order_or_the_greatest_number(text: str, files: str) -> None:
    snapshot = nan_partition()
    assert kept(snapshot, parse_sql_predicate(text, snapshot.schema, ["p"])) == {f"{n}.parquet" for n in files}
