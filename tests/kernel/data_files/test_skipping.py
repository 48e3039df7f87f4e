"""Skipping: never a file too many, for every type and operator, and as many as the statistics allow."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakeport.engine import memory_engine
from lakeport.kernel.data_files import Bounds, FileStatistics, may_match, stats_type
from lakeport.kernel.expressions import (
    And,
    Column,
    CompareOp,
    Comparison,
    Expression,
    Not,
    Or,
    chain,
    col,
    format_expression,
    lit,
)
from lakeport.kernel.scan import plan as scan
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.kernel.values import EXACT
from lakeport.testing.builder import Action, TableBuilder, mapped, protocol, read, rows, struct
from lakeport.testing.rowwise import by_row
from tests.examples import examples

ROOT = "memory:///t"
DAY = datetime(2026, 1, 1, tzinfo=UTC)

# Few values, close together: so that predicates hit bounds. Times differ by less than the milliseconds of statistics.
_moments = st.integers(-3000, 3000).map(lambda n: DAY + timedelta(microseconds=n))
_texts = st.one_of(
    st.text("ab", max_size=3),
    st.builds(lambda n, tail: "a" * n + tail, st.integers(30, 34), st.sampled_from(["", "a", "b", "\U0010ffff", "z"])),
    st.text(st.sampled_from("aé\U0001f600\ud7ff\ue000"), max_size=2),
)
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "byte": st.integers(-128, 127) | st.integers(-2, 2),
    "short": st.integers(-3, 3),
    "integer": st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1]),
    "long": st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1, 2**53, 2**53 + 1]),
    "float": st.floats(-2, 2, width=32) | st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0, -0.0]),
    "double": st.floats(-2, 2) | st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0]),
    "decimal(10,2)": st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2)),
    "decimal(38,10)": st.integers(0, 3).map(lambda n: Decimal(f"1234567890123456789012345678.000000000{n}")),
    "string": _texts,
    "binary": st.binary(max_size=2),
    "boolean": st.booleans(),
    "date": st.integers(-3, 3).map(lambda n: date(2026, 1, 1) + timedelta(days=n)),
    "timestamp": _moments,
    "timestamp_ntz": _moments.map(lambda m: m.replace(tzinfo=None)),
}
THREE_OPS: list[CompareOp] = ["=", "<", ">"]
OPS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
COLUMNS = [Column(("c",)), Column(("s", "c")), Column(("p",))]


@st.composite
def predicates(draw: st.DrawFn, values: st.SearchStrategy[Any], kind: str, depth: int = 2) -> Expression:
    if depth and draw(st.booleans()):
        left = draw(predicates(values, kind, depth - 1))
        if draw(st.integers(0, 2)) == 0:
            return Not(left)
        return draw(st.sampled_from([And, Or]))(left, draw(predicates(values, kind, depth - 1)))
    column = draw(st.sampled_from(COLUMNS))
    literals = (st.integers(-1, 1) if column.path == ("p",) else values) | st.none()
    match draw(st.sampled_from(["compare"] * 5 + ["in", "null", "not null", "columns", "like"])):
        case "compare":
            return Comparison(draw(st.sampled_from(OPS)), column, lit(draw(literals)))
        case "in":
            return column.isin(draw(st.lists(literals, max_size=3)))
        case "null":
            return column.is_null()
        case "columns":
            return Comparison(draw(st.sampled_from(OPS)), COLUMNS[0], COLUMNS[1])
        case "like" if kind == "string" and column.path != ("p",):
            return (
                column.startswith(draw(values))
                if draw(st.booleans())
                else column.like(draw(st.text("ab%_", max_size=4)))
            )
    return column.is_not_null()


@pytest.mark.parametrize("kind", TYPES)
@examples(60)
@given(data=st.data())
def test_filtered_rows_are_those_of_reading_everything(kind: str, data: st.DataObject) -> None:
    values = TYPES[kind]
    mode = data.draw(st.sampled_from(["none", "name"]), "mapping")
    schema = struct(c=kind, s=struct(c=kind), p="integer")
    if mode == "name":
        schema = mapped(schema)
    table = TableBuilder(
        memory_engine(), ROOT, schema, ["p"], {"delta.columnMapping.mode": mode}, protocol(2, 5)
    ).create()
    fields = table.physical_schema()
    inner = fields.field(1).type.field(0).name
    partition = schema.fields[2].physical_name(mode)
    everything: list[dict[str, Any]] = []
    for _ in range(data.draw(st.integers(1, 3), "files")):
        column = data.draw(st.lists(st.none() | values, min_size=1, max_size=5), "values")
        nested = [
            data.draw(st.none() | st.just(None) | st.fixed_dictionaries({"c": st.none() | values})) for _ in column
        ]
        p = data.draw(st.none() | st.integers(-1, 1), "partition")
        stored = [None if v is None else {inner: v["c"]} for v in nested]
        deleted = data.draw(st.sets(st.integers(0, len(column) - 1)), "deleted")
        add = table.add(
            {fields[0].name: column, fields[1].name: stored},
            {partition: None if p is None else str(p)},
            stats=data.draw(st.sampled_from([True, True, False])),
            tight=False if deleted else data.draw(st.sampled_from([None, True, False])),
            row_group_size=data.draw(st.integers(1, 3)),
        )
        if deleted:
            add = table.delete(add, deleted, "i")[1]
        table.commit(add)
        everything += [
            {"c": c, "s": s, "p": p} for i, (c, s) in enumerate(zip(column, nested, strict=True)) if i not in deleted
        ]
    match data.draw(st.sampled_from(["commits", "checkpoint", "parsed"]), "log"):
        case "checkpoint":
            table.checkpoint()
        case "parsed":
            table.checkpoint(parsed_stats=True)
    predicate = data.draw(predicates(values, kind), "predicate")
    expected = [row for row in everything if by_row(predicate, row) is True]
    found = read(table.snapshot(), predicate).to_pylist()
    assert as_text(found) == as_text(expected), format_expression(predicate)


def as_text(table: list[dict[str, Any]]) -> list[str]:
    """Rows in an order, with NaN equal to itself and one name for UTC."""
    return sorted(repr(row).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") for row in table)


# As many as the statistics allow

LADDER: dict[str, list[Any]] = {
    "byte": [-5, 0, 5, 10],
    "short": [-5, 0, 5, 10],
    "integer": [-5, 0, 5, 10],
    "long": [-5, 0, 5, 10],
    "float": [-5.5, 0.0, 5.5, 10.0],
    "double": [-5.5, 0.0, 5.5, 10.0],
    "decimal(38,10)": [Decimal(f"1234567890123456789012345678.000000000{n}") for n in (1, 2, 3, 4)],
    "decimal(10,2)": [Decimal("-5.50"), Decimal("0.00"), Decimal("5.50"), Decimal("10.00")],
    "string": ["a", "b", "c", "d"],
    "date": [date(2026, 1, d) for d in (1, 2, 3, 4)],
    "timestamp": [DAY + timedelta(hours=h) for h in (0, 1, 2, 3)],
    "timestamp_ntz": [DAY.replace(tzinfo=None) + timedelta(hours=h) for h in (0, 1, 2, 3)],
}


def kept(table: TableBuilder, predicate: Expression) -> int:
    return len(list(table.snapshot().scan_builder().with_filter(predicate).build().files()))


@pytest.mark.parametrize("kind", LADDER)
@pytest.mark.parametrize("path", ["c", "s.c"])
@pytest.mark.parametrize("log", ["json", "parsed"])
def test_every_type_is_skipped_by_every_operator(kind: str, path: str, log: str) -> None:
    a, b, c, d = LADDER[kind]
    table = TableBuilder(memory_engine(), ROOT, struct(c=kind, s=struct(c=kind)))
    files = [table.add({"c": v, "s": [{"c": x} for x in v]}) for v in ([a, b], [c, d], [None, None])]
    table.create(*files)
    if log == "parsed":
        table.checkpoint(parsed_stats=True)
    column = col(path)
    counts = {
        "=": kept(table, column == a),
        "<": kept(table, column < c),
        "<=": kept(table, column <= b),
        ">": kept(table, column > b)
        if not kind.startswith("timestamp")
        else kept(table, column > b + timedelta(minutes=1)),
        ">=": kept(table, column >= c),
        "in": kept(table, column.isin([a, b])),
        "<=>": kept(table, column.equals_null_safe(d)),
        "null": kept(table, column.is_null()),
        "not <": kept(table, ~(column < c)) if kind not in ("float", "double") else 1,
        "or": kept(table, (column == a) | column.is_null()) - 1,
        "and": kept(table, (column >= b) & (column < c)),
    }
    assert counts == dict.fromkeys(counts, 1)
    assert kept(table, column.is_not_null()) == 2
    assert kept(table, (column < a) | (column > d)) == (1 if kind.startswith("timestamp") else 0)
    assert kept(table, column == None) == 0  # noqa: E711  # builds a predicate


def test_not_equal_skips_a_file_of_one_exact_value() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(c="long", t="string", f="double"))
    table.create(table.add({"c": [5, 5, None], "t": ["x", "x", "x"], "f": [1.0, 1.0, 1.0]}))
    assert kept(table, col("c") != 5) == 0
    assert kept(table, ~(col("c") == 5)) == 0
    assert kept(table, col("c") != 6) == 1
    assert kept(table, col("t") != "x") == 1  # a string may be cut
    assert kept(table, col("f") != 1.0) == 1  # statistics may leave NaN out


def test_a_prefix_skips_by_cut_strings() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(t="string"))
    table.create(table.add({"t": ["m" * 40, "m" * 50]}), table.add({"t": ["x"]}))
    assert kept(table, col("t").startswith("m")) == 1
    assert kept(table, col("t").startswith("m" * 45)) == 1
    assert kept(table, col("t").startswith("n")) == 0
    assert kept(table, col("t").like("x%y")) == 1
    assert kept(table, col("t").like("%y")) == 2
    assert rows(table.snapshot(), col("t") == "m" * 50) == [("m" * 50,)]
    assert rows(table.snapshot(), col("t") > "m" * 45) == [("m" * 50,), ("x",)]


def test_a_greatest_text_of_32_characters_may_be_cut_and_a_shorter_one_not() -> None:
    """Writers need not append a character that is greater than what they cut off."""
    for length in (31, 32):
        table = TableBuilder(memory_engine(), ROOT, struct(t="string"))
        bound, text = "m" * length, "m" * (length + 1)
        stats = {"numRecords": 1, "minValues": {"t": bound}, "maxValues": {"t": bound}, "nullCount": {"t": 0}}
        table.create(table.add({"t": [text]}, stats=json.dumps(stats)))
        assert kept(table, col("t") == text) == kept(table, col("t") > bound) == (length == 32)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_greatest_time_that_is_cut_to_milliseconds_is_widened(kind: str) -> None:
    moment = (DAY + timedelta(microseconds=1_999)) if kind == "timestamp" else datetime(2026, 1, 1, 0, 0, 0, 1999)
    table = TableBuilder(memory_engine(), ROOT, struct(t=kind))
    table.create(table.add({"t": [moment]}))
    assert rows(table.snapshot(), col("t") == moment) == [(moment,)]
    assert rows(table.snapshot(), col("t") > moment - timedelta(microseconds=1)) == [(moment,)]
    assert kept(table, col("t") > moment + timedelta(milliseconds=1)) == 0


def test_the_greatest_time_of_all_does_not_overflow() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(t="timestamp"))
    stats = json.dumps({"numRecords": 1, "maxValues": {"t": "9999-12-31T23:59:59.999Z"}, "nullCount": {"t": 0}})
    moment = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    table.create(table.add({"t": [moment]}, stats=stats))
    assert rows(table.snapshot(), col("t") >= moment) == [(moment,)]


def test_wide_bounds_make_null_counts_mean_little() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(c="long"))
    stats = {"numRecords": 3, "tightBounds": False, "minValues": {"c": 1}, "maxValues": {"c": 2}}
    adds = [table.add({"c": [1, 2, None]}, stats=json.dumps(stats | {"nullCount": {"c": n}})) for n in (0, 1, 3)]
    table.create(*adds)
    assert kept(table, col("c").is_null()) == 2
    assert kept(table, col("c").is_not_null()) == 2
    assert kept(table, col("c") > 5) == 0


@pytest.mark.parametrize(
    "stats",
    [
        "no json",
        "{}",
        "null",
        "[]",
        '{"numRecords": "many", "minValues": 5, "maxValues": [], "nullCount": null}',
        '{"numRecords": -5, "minValues": {"c": "x"}, "maxValues": {"c": {}}, "nullCount": {"c": -1}}',
        '{"numRecords": 1e999, "minValues": {"c": 1e999}}',
        '{"minValues": {"c": 1.5, "t": 7}, "maxValues": {"c": 99999999999999999999, "t": null}}',
        '{"numRecords": 2, "minValues": {"c": null}, "maxValues": {"c": true}, "nullCount": {"c": 1.5}}',
        '{"numRecords":2,"minValues":{"c":\ud800}}',
    ],
)
@pytest.mark.parametrize("predicate", [col("c") == 1, col("c") > 0, col("c").is_not_null(), col("t") == "x"])
def test_a_statistic_that_does_not_parse_is_unknown(stats: str, predicate: Expression) -> None:
    stats = stats.encode("utf-8", "replace").decode()
    table = TableBuilder(memory_engine(), ROOT, struct(c="long", t="string"))
    table.create(table.add({"c": [1, 2], "t": ["x", "x"]}, stats=stats))
    expected = [r for r in [(1, "x"), (2, "x")] if by_row(predicate, {"c": r[0], "t": r[1]})]
    assert rows(table.snapshot(), predicate) == expected
    assert rows(table.snapshot()) == [(1, "x"), (2, "x")]


def test_one_bad_statistic_leaves_the_others_alone() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(c="long", t="string"))
    stats = '{"numRecords": 1, "minValues": {"c": "x", "t": "a"}, "maxValues": {"c": [], "t": "b"}}'
    table.create(table.add({"c": [1], "t": ["a"]}, stats=stats))
    assert kept(table, col("c") == 5) == 1
    assert kept(table, col("t") == "z") == 0


def test_statistics_of_a_widened_column_still_skip() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(c="double"), protocol=protocol(features=["typeWidening"]))
    table.create(table.add(pa.table({"c": pa.array([1, 2], pa.int32())})), table.add({"c": [5.5]}))
    assert kept(table, col("c") > 3) == 1
    assert kept(table, col("c") == 2) == 1


WIDENED: dict[tuple[str, str], tuple[pa.DataType, list[Any]]] = {
    ("byte", "long"): (pa.int8(), [-5, 0, 5]),
    ("integer", "double"): (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    ("float", "double"): (pa.float32(), [3.4, -3.3, float("nan")]),
    ("integer", "decimal(12,2)"): (pa.int32(), [-5, 0, 5]),
    ("long", "decimal(38,2)"): (pa.int64(), [-(2**63), 2**53 + 1, 2**63 - 1]),
    ("decimal(5,2)", "decimal(38,10)"): (pa.decimal128(5, 2), [Decimal("-1.25"), Decimal("3.40")]),
    ("date", "timestamp_ntz"): (pa.date32(), [date(2026, 1, 1), date(1969, 12, 31)]),
}


def widened(before: str, after: str, is_told: bool) -> StructType:
    change = {"delta.typeChanges": [{"fromType": before, "toType": after, "tableVersion": 1}]}
    field = StructField("c", PrimitiveType(after), metadata=change if is_told else {})
    return struct(field, s=struct(field), p=after)


@pytest.mark.parametrize("log", ["json", "parsed", "row groups"])
@pytest.mark.parametrize("types", WIDENED, ids=" to ".join)
@pytest.mark.parametrize("is_told", [True, False], ids=["told", "not told"])
def test_no_row_of_a_widened_column_is_lost(types: tuple[str, str], log: str, is_told: bool) -> None:
    schema, (arrow, values) = widened(*types, is_told), WIDENED[types]
    table = TableBuilder(memory_engine(), ROOT, schema, ["p"], protocol=protocol(features=["typeWidening"]))
    table.create(*(file_of_old_type(table, value, arrow, log != "row groups") for value in values))
    old = read(table.snapshot()).to_pylist()
    for row, value in zip(old, values, strict=True):
        table.commit(table.add({"c": [row["c"]], "s": [row["s"]]}, {"p": str(value)}, stats=log != "row groups"))
    if log == "parsed":
        table.checkpoint(parsed_stats=True)
    snapshot = table.snapshot()
    everything = read(snapshot).to_pylist()
    literals = {repr(value): value for value in (*values[:2], *(row["c"] for row in old[:2]))}.values()
    for op, column, value in product(THREE_OPS, COLUMNS, literals):
        predicate = Comparison(op, column, lit(value))
        expected = [row for row in everything if by_row(predicate, row) is True]
        assert as_text(read(snapshot, predicate).to_pylist()) == as_text(expected), format_expression(predicate)


def file_of_old_type(table: TableBuilder, value: Any, arrow: pa.DataType, with_stats: bool) -> Action:
    """A row from before the type was changed. Its statistics have the shortest digits of a float, as Spark's do."""
    column = pa.array([value], arrow)
    rows_of_type = pa.table({"c": column, "s": pa.StructArray.from_arrays([column], ["c"])})
    shortest: Any = with_stats
    if with_stats and isinstance(value, float) and value == value:
        bounds = {"c": value, "s": {"c": value}}
        shortest = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds})
    return table.add(rows_of_type, {"p": str(value)}, stats=shortest)


def test_bounds_of_a_widened_float_still_skip() -> None:
    table = TableBuilder(memory_engine(), ROOT, widened("float", "double", is_told=False), ["p"])
    table.create(*(file_of_old_type(table, value, pa.float32(), True) for value in (3.4, 3.5)))
    assert kept(table, col("c") > 3.45) == 1
    assert kept(table, col("c") < 3.45) == 1


# Whatever a writer makes of bounds


def one_file(kind: str, values: pa.Array, low: str, high: str) -> TableBuilder:
    """A table with one file, whose bounds are JSON texts."""
    table = TableBuilder(memory_engine(), ROOT, struct(c=kind))
    bounds = f'"minValues":{{"c":{low}}},"maxValues":{{"c":{high}}}'
    stats = f'{{"numRecords":{len(values)},{bounds},"nullCount":{{"c":0}}}}'
    return table.create(table.add(pa.table({"c": values}), stats=stats))


def assert_finds_all(table: TableBuilder, literals: Iterable[Any]) -> None:
    for parsed in (False, True):
        if parsed:
            table.checkpoint(parsed_stats=True)
        snapshot = table.snapshot()
        everything = read(snapshot).to_pylist()
        for value, op in product([*(row["c"] for row in everything), *literals], OPS):
            predicate = Comparison(op, col("c"), lit(value))
            expected = [row for row in everything if by_row(predicate, row) is True]
            assert as_text(read(snapshot, predicate).to_pylist()) == as_text(expected), format_expression(predicate)


@pytest.mark.parametrize(
    "text",
    [
        "3.4",
        "-3.3",
        "0.1",
        "1.18846831E13",
        "-6.8538022E8",
        "7.3245545E25",
        "1.4E-45",
        "1.17549435E-38",
        "3.4028235E38",
    ],
)
def test_the_digits_of_a_float_may_bound_doubles(text: str) -> None:
    """As Java writes them: not always the fewest, and once in a while off by one in the last."""
    value = pa.array([np.float32(text)], pa.float32())
    assert_finds_all(one_file("double", value, text, text), [float(text)])


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(1, 9))
def test_any_digits_of_a_float_may_bound_doubles(value: float, digits: int) -> None:
    text = f"{value:.{digits - 1}e}"
    with np.errstate(over="ignore"):
        assume(np.float32(text) == np.float32(value))
    stats = pa.array([{"minValues": {"c": float(text)}, "maxValues": {"c": float(text)}}])
    bounds = FileStatistics(stats, struct(c="double"), "none").bounds_of(Column(("c",)))
    assert bounds is not None
    assert bounds.lower is not None
    assert bounds.upper is not None
    assert bounds.lower[0].as_py() <= value <= bounds.upper[0].as_py()


@pytest.mark.parametrize("bound", [1700000123.5, 1700000190.0, 123456789.125, 0.12345678912, 1e300, 1e-300, -0.5])
def test_doubles_that_no_float_is_written_as_stay(bound: float) -> None:
    stats = pa.array([{"minValues": {"c": bound}, "maxValues": {"c": bound}}])
    bounds = FileStatistics(stats, struct(c="double"), "none").bounds_of(Column(("c",)))
    assert bounds is not None
    assert bounds.lower == bounds.upper == pa.array([bound])


@pytest.mark.parametrize(
    ("kind", "value", "low", "high"),
    [
        ("decimal(18,2)", "1234567890123456.78", "1234567890123456.8", "1234567890123456.8"),
        ("decimal(38,2)", "123456789012345678.99", "1.2345678901234566e+17", "1.2345678901234566e+17"),
        ("decimal(20,2)", "-100000000000000000.01", "-9.999999999999998e+16", "-9.999999999999998e+16"),
        ("decimal(20,2)", "123456789012345678.99", "123456789012345664.00", "123456789012345664.00"),
        ("decimal(38,20)", "123456789012345678.12345678901234567890", "1.2345678901234568e17", "1.2345678901234568e17"),
        ("decimal(38,30)", "0.000000000123456789012345678901", "1.2345678901234568e-10", "1.2345678901234568e-10"),
        ("decimal(38,0)", "9" * 38, "9223372036854775807", "9223372036854775807"),
        ("decimal(38,0)", "-" + "9" * 38, "-9223372036854775808", "-9223372036854775808"),
        ("decimal(38,0)", "9" * 38, "9.999999999999998e37", "9.999999999999998e37"),
        ("decimal(38,0)", "-" + "9" * 38, "-9.999999999999998e37", "-9.999999999999998e37"),
        ("decimal(15,2)", "1234567890123.45", "1234567890123.45", "1234567890123.45"),
    ],
)
def test_decimals_may_be_rounded_to_doubles(kind: str, value: str, low: str, high: str) -> None:
    """The first three as deltalake writes them."""
    precision, scale = map(int, kind[8:-1].split(","))
    table = one_file(kind, pa.array([Decimal(value)], pa.decimal128(precision, scale)), low, high)
    assert_finds_all(table, [Decimal(low)])


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38), st.integers(-1, 1))
def test_any_decimal_may_be_rounded_to_a_double_or_the_next(digits: int, scale: int, steps: int) -> None:
    value = EXACT.scaleb(Decimal(digits), -scale)
    rounded = float(value)
    for _ in range(abs(steps)):
        rounded = math.nextafter(rounded, math.copysign(math.inf, steps))
    kind = f"decimal(38,{scale})"
    text = f'{{"minValues":{{"c":{rounded!r}}},"maxValues":{{"c":{rounded!r}}}}}'
    fields = stats_type(struct(c=kind), [Column(("c",))], "none")
    stats = memory_engine().json.parse_json(pa.array([text]), pa.schema(list(fields))).to_struct_array()
    bounds = FileStatistics(stats, struct(c=kind), "none").bounds_of(Column(("c",)))
    assert bounds is not None
    assert bounds.lower is not None
    assert bounds.upper is not None
    low, high = bounds.lower[0].as_py(), bounds.upper[0].as_py()
    if abs(digits) >= 10**15 or not steps:  # shorter ones are exact doubles
        assert low is None or low <= value
        assert high is None or high >= value


def cut_by_older_delta(text: str) -> str:
    """A greatest value as Delta has written it: it counted halves of characters, and ordered by them."""
    halves = [text.encode("utf-16-le", "surrogatepass")[i : i + 2] for i in range(0, 2 * utf16_length(text), 2)]
    if len(halves) <= 32:
        return text
    tie_breaker = "\ufffd".encode("utf-16-le")
    more = takewhile(lambda half: half[::-1] >= tie_breaker[::-1], halves[32:])
    cut = b"".join([*halves[:32], *more, tie_breaker])
    return cut.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@pytest.mark.parametrize(
    "text",
    [
        "m" * 32 + "\U0001f600 and more",
        "m" * 31 + "\U0001f600 and more",
        "\U0001f600" * 20,
        "m" + "\U0001f600" * 20,
        "m" * 32 + "\uffff\U0001f600",
        "m" * 32 + "\ufffd\ufffd\U0001f600",
        "m" * 40,
        "é" * 40,
    ],
)
def test_a_greatest_text_may_be_cut_by_older_versions_of_delta(text: str) -> None:
    high = json.dumps(cut_by_older_delta(text))
    assert_finds_all(one_file("string", pa.array([text]), json.dumps(text[:32]), high), [text[:-1], text[:16]])


def test_partitions_and_statistics_work_together() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(c="long", p="integer"), ["p"])
    table.create(*(table.add({"c": [10 * p, 10 * p + 1]}, {"p": str(p)}) for p in range(4)))
    assert kept(table, (col("p") > 1) & (col("c") < 25)) == 1
    assert kept(table, (col("p") == 0) | (col("c") > 30)) == 2
    assert kept(table, ~((col("p") < 2) | (col("c") > 25))) == 1


def test_not_over_floats_keeps_files_that_may_hold_nan() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(f="double"))
    without_nan = json.dumps({"numRecords": 2, "minValues": {"f": 1.0}, "maxValues": {"f": 1.0}, "nullCount": {"f": 0}})
    table.create(table.add({"f": [1.0, float("nan")]}, stats=without_nan))
    for predicate in (~(col("f") < 5.0), ~(col("f") == 1.0), col("f") != 1.0, ~(col("f") >= 0.0)):
        assert [str(r[0]) for r in rows(table.snapshot(), predicate)] == ["nan"]


# The rules by themselves


def test_what_is_not_known_is_possible() -> None:
    unknown = Bounds(None, None, None, None)
    for predicate in (col("c") == 1, col("c").is_null(), col("c").is_not_null(), ~(col("c") == 1), col("c").like("a%")):
        assert may_match(predicate, lambda _: unknown, 2).tolist() == [True, True]
        assert may_match(predicate, lambda _: None, 2).tolist() == [True, True]


@given(st.text(string.printable, max_size=8), st.lists(st.text(string.printable, max_size=8), min_size=1))
def test_a_prefix_is_found_wherever_it_is(prefix: str, values: list[str]) -> None:
    values = [*values, prefix + values[0]]
    lower, upper = pa.array([min(values)]), pa.array([max(values)])
    one = pa.array([len(values)])
    bounds = Bounds(lower, upper, pa.array([0]), one)
    assert may_match(col("c").startswith(prefix), lambda _: bounds, 1)[0]


def test_bounds_of_a_void_column_say_that_it_is_null() -> None:
    stats = pa.array([{"numRecords": 3}])
    bounds = FileStatistics(stats, struct(v=PrimitiveType("void")), "none").bounds_of(Column(("v",)))
    assert bounds is not None
    assert may_match(col("v").is_not_null(), lambda _: bounds, 1).tolist() == [False]
    assert may_match(col("v").is_null(), lambda _: bounds, 1).tolist() == [True]


def test_what_is_known_of_a_column_is_worked_out_once() -> None:
    asked: list[tuple[str, ...]] = []

    def bounds_of(column: Column) -> Bounds:
        asked.append(column.path)
        numbers = pa.array([0, 10], pa.int64())
        return Bounds(
            lower=numbers, upper=numbers, nulls=pa.array([0, 0], pa.int64()), rows=pa.array([1, 1], pa.int64())
        )

    terms = [Comparison("=", Column((name,)), lit(value)) for value in range(10, 800) for name in ("a", "b")]
    assert may_match(chain(Or, terms), bounds_of, 2).tolist() == [False, True]
    assert sorted(asked) == [("a",), ("b",)]


def test_files_of_many_commits_are_filtered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(id="long"))
    table.create()
    snapshot = table.snapshot()
    for number in range(50):
        table.commit(table.add({"id": [number]}))
        snapshot = snapshot.refresh()  # reads each commit on its own
    filtered: list[int] = []
    monkeypatch.setattr(scan, "may_match", lambda *args: filtered.append(args[2]) or may_match(*args))
    planned = snapshot.scan_builder().with_filter(col("id") >= 48).build()
    assert len(list(planned.files())) == 2
    assert filtered == [50]
    monkeypatch.setattr(scan, "_FILES_AT_ONCE", 20)
    filtered.clear()
    assert len(list(planned.files())) == 2
    assert filtered == [20, 20, 10]
