"""`format_json_predicate`: what a client may send, so that no server drops a file too many."""

import json
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import UnknownColumnError
from lakeport.kernel.expressions import And, Comparison, Expression, Not, Or, col, lit
from lakeport.sharing.predicates import format_json_predicate, parse_json_predicate
from lakeport.testing.builder import struct as schema_of
from lakeport.testing.rowwise import by_row
from tests.examples import examples
from tests.sharing.predicates.hinted_tables import PARTITION_COLUMNS
from tests.sharing.predicates.hints import COLUMNS, VALUES, kept, tables

SCHEMA = schema_of(
    i="integer", y="byte", s="string", d="date", t="timestamp", f="float", g="double", b="boolean", m="decimal(5,2)"
)


def text(expression: Expression) -> str | None:
    """The predicate in a shorter notation."""
    written = format_json_predicate(expression, SCHEMA)
    return None if written is None else _short(json.loads(written))


def _short(node: Any) -> str:
    match node["op"]:
        case "column":
            return f"{node['name']}:{node['valueType']}"
        case "literal":
            return str(node["value"])
    return f"{node['op']}({', '.join(map(_short, node['children']))})"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("I") == 3, "equal(i:int, 3)"),
        (Comparison(">", lit(3), col("i")), "lessThan(i:int, 3)"),
        (col("y") >= 3, "greaterThanOrEqual(y:int, 3)"),
        (col("i") != 3, "or(lessThan(i:int, 3), greaterThan(i:int, 3))"),
        (~(col("i") < 3), "greaterThanOrEqual(i:int, 3)"),
        (col("i").equals_null_safe(3), "equal(i:int, 3)"),
        (col("i").isin([1, 2, None]), "or(equal(i:int, 1), equal(i:int, 2))"),
        (col("i") > 1.5, "greaterThan(i:int, 1)"),
        (col("s") == "x", "equal(s:string, x)"),
        (col("d") < "2026-01-01", "lessThan(d:date, 2026-01-01)"),
        (col("d") == "9999-12-31", "equal(d:date, 9999-12-31)"),
        (col("b"), "equal(b:bool, true)"),
        (~col("b"), "equal(b:bool, false)"),
        (col("g") < 1.5, "lessThan(g:double, 1.5)"),
        (col("g") < float("inf"), "lessThan(g:double, Infinity)"),
        (col("f") < 1.5, "lessThanOrEqual(f:float, 1.5)"),
        (col("f") == 0.1, "and(greaterThanOrEqual(f:float, 0.099999994), lessThanOrEqual(f:float, 0.1))"),
        (col("t") > "2026-01-01T00:00:00.123456Z", "greaterThanOrEqual(t:timestamp, 2026-01-01T00:00:00.123Z)"),
        (col("t") < "2026-01-01T00:00:00.123456Z", "lessThanOrEqual(t:timestamp, 2026-01-01T00:00:00.124Z)"),
        ((col("i") > 1) & (col("s") == "x"), "and(greaterThan(i:int, 1), equal(s:string, x))"),
        ((col("i") > 1) | (col("i") < 0), "or(greaterThan(i:int, 1), lessThan(i:int, 0))"),
        # Weaker than the filter
        ((col("i") > 1) & col("s").is_null() & (col("m") > 3), "greaterThan(i:int, 1)"),
        (((col("i") > 1) & (col("m") > 3)) | (col("i") < 0), "or(greaterThan(i:int, 1), lessThan(i:int, 0))"),
        # Nothing
        ((col("i") > 1) | (col("m") > 3), None),
        (col("i").is_null(), None),
        (col("i").is_not_null(), None),
        (col("s").startswith("x"), None),
        (col("g") != 1.0, None),
        (col("g") == float("nan"), None),
        (col("d") >= "12345-01-01", None),
        (col("d") != "-0044-03-15", None),
        (col("t") >= "-0044-03-15", None),
        (col("t") < "9999-12-31T23:59:59.999999Z", None),
        (col("i") + 1 == 2, None),
        (col("i") == col("y"), None),
        (lit(True), None),
        (lit(False), None),
    ],
)
def test_what_is_said_is_implied_by_the_filter(expression: Expression, expected: str | None) -> None:
    assert text(expression) == expected


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UnknownColumnError, match="nope"):
        format_json_predicate(col("nope") == 1, SCHEMA)


@st.composite
def filters(draw: st.DrawFn, of: str, depth: int = 2) -> Expression:
    """A filter on columns of one type."""
    if depth and draw(st.booleans()):
        left, right = draw(filters(of, depth - 1)), draw(filters(of, depth - 1))
        return draw(st.sampled_from([And(left, right), Or(left, right), Not(left)]))
    name = draw(st.sampled_from([name for name, kind in COLUMNS.items() if kind == of]))
    value = draw(VALUES[of])
    if isinstance(value, datetime):
        value += timedelta(microseconds=draw(st.integers(-1000, 1000)))
    return Comparison(draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), col(name), lit(value))


@pytest.mark.parametrize("kind", VALUES)
@examples(30)
@given(data=st.data())
def test_what_is_sent_keeps_every_file_that_the_filter_needs(kind: str, data: st.DataObject) -> None:
    snapshot, files = data.draw(tables([kind]))
    for expression in data.draw(st.lists(filters(kind), min_size=10, max_size=10)):
        sent = format_json_predicate(expression, snapshot.schema)
        if sent is not None:
            predicate = parse_json_predicate(sent, snapshot.schema, PARTITION_COLUMNS)
            found = {name for name, rows in files.items() if any(by_row(expression, row) is True for row in rows)}
            assert found <= kept(snapshot, predicate)


@given(st.floats(allow_nan=False))
def test_a_float_is_said_by_floats_around_it(value: float) -> None:
    tree = json.loads(format_json_predicate(col("f") == value, SCHEMA) or "")
    low, high = (node["children"][1]["value"] for node in tree["children"])
    assert _single(low) <= value <= _single(high)


def _single(written: str) -> float:
    """As a server reads it: the text as a number of 32 bits."""
    try:
        number: float = struct.unpack("<f", struct.pack("<f", float(written)))[0]
    except OverflowError:
        return float("inf") if not written.startswith("-") else float("-inf")
    return number


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_a_moment_is_said_by_milliseconds_around_it(moment: datetime) -> None:
    tree = json.loads(format_json_predicate(col("t") == moment, SCHEMA) or "")
    low, high = (datetime.fromisoformat(node["children"][1]["value"]) for node in tree["children"])
    assert low <= moment <= high
    assert high - low <= timedelta(milliseconds=1)
