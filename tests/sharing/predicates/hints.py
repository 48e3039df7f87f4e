"""Hints as clients mean them: random ones, their text, and which rows they match, row by row, under each reading."""

from __future__ import annotations

import json
import operator
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

from hypothesis import strategies as st

from lakeport.engine import memory_engine
from lakeport.kernel.snapshot import Snapshot
from lakeport.testing.builder import TableBuilder
from lakeport.testing.builder import struct as schema_of

DAY = datetime(2026, 1, 1, tzinfo=UTC)
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAN, _INF = float("nan"), float("inf")

# Few values, close together: so that predicates hit bounds.
_floats = st.sampled_from([-1.0, 0.0, -0.0, 0.5, _INF, -_INF, _NAN, _NAN])
_singles = st.sampled_from([1.100000023841858, -1.100000023841858])
_ints = st.integers(-2, 2)
_moments = st.builds(
    lambda day, hours, n: day + timedelta(hours=hours) + n * 300 * _MICROSECOND,
    st.sampled_from([DAY, _EPOCH]),
    st.sampled_from([0, 0, 0, 5, -17]),
    st.integers(-5, 5),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": _ints,
    "integer": _ints | st.sampled_from([-(2**31), 2**31 - 1]),
    "long": _ints | st.sampled_from([2**32 + 1, -(2**32), 2**31, -(2**63), 2**63 - 1]),
    "string": st.text("ab", max_size=2) | st.sampled_from(["null", "a" * 33, "\U0001f600"]),
    "date": st.integers(-2, 2).map(lambda n: date(2026, 1, 1) + timedelta(days=n)),
    "float": _floats | _singles,
    "double": _floats | _singles | st.sampled_from([1.1, -1.1, 1e300]),
    "timestamp": _moments,
}
VALUE_TYPES = {
    **{"boolean": ["bool"], "byte": ["int", "long", "float", "double"], "integer": ["int", "long", "double"]},
    **{"long": ["long", "int"], "string": ["string"], "date": ["date"], "float": ["float", "double"]},
    **{"double": ["double", "float"], "timestamp": ["timestamp"]},
}
LITERALS = {
    **{"bool": st.booleans(), "int": VALUES["integer"], "long": VALUES["long"], "string": VALUES["string"]},
    **{"date": VALUES["date"], "float": VALUES["float"], "double": VALUES["double"], "timestamp": _moments},
}
PARTITIONED = ["boolean", "integer", "string", "date", "double", "timestamp"]
COLUMNS = {f"c_{kind}": kind for kind in VALUES} | {f"p_{kind}": kind for kind in PARTITIONED}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "lessThan": operator.lt,
    "lessThanOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterThanOrEqual": operator.ge,
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Node:
    op: str
    children: tuple[Node, ...] = ()
    name: str = ""
    value: Any = None
    value_type: str = ""


@dataclass(frozen=True)
class Reading:
    """How a client may take a hint."""

    with_null: bool
    """Whether a comparison with null is null, or else false."""
    nan_is_greatest: bool


READINGS = [Reading(*flags) for flags in product([True, False], repeat=2)]


def nan_partition() -> Snapshot:
    """File 0 has NaN in the partition column `p`, and file 1 has 1.0."""
    table = TableBuilder(memory_engine(), "memory:///t", schema_of(id="integer", p="double"), ["p"]).create()
    for number, value in enumerate(["NaN", "1.0"]):
        table.commit(table.add({"id": [number]}, {"p": value}, name=f"{number}.parquet"))
    return table.snapshot()


# Random hints and tables


@st.composite
def leaves(draw: st.DrawFn, value_type: str) -> Node:
    names = [name for name, kind in COLUMNS.items() if value_type in VALUE_TYPES[kind]]
    if draw(st.booleans()):
        return Node("column", name=draw(st.sampled_from(names)), value_type=value_type)
    return Node("literal", value=draw(LITERALS[value_type]), value_type=value_type)


@st.composite
def hints(draw: st.DrawFn, value_type: str, depth: int = 2) -> Node:
    """A hint on the columns that are compared as one type."""
    kind = draw(st.integers(0, 9))
    if depth and kind < 4:
        parts = draw(st.lists(hints(value_type, depth - 1), min_size=2, max_size=3))
        return Node("not", (parts[0],)) if kind < 2 else Node("and" if kind == 2 else "or", tuple(parts))
    if kind == 9:
        return Node("isNull", (draw(leaves(value_type)),))
    if kind == 8 and value_type == "bool":
        return draw(leaves("bool"))
    sides = (draw(leaves(value_type)), draw(leaves(value_type)))
    return Node(draw(st.sampled_from(list(COMPARE))), sides)


@st.composite
def tables(draw: st.DrawFn, kinds: Collection[str] = tuple(VALUES)) -> tuple[Snapshot, dict[str, list[Row]]]:
    """A small table with columns of these types, and the rows of each of its files."""
    columns = {name: kind for name, kind in COLUMNS.items() if kind in kinds}
    partitioned = [name for name in columns if name.startswith("p_")]
    table = TableBuilder(memory_engine(), "memory:///t", schema_of(**columns), partitioned).create()
    files: dict[str, list[Row]] = {}
    for number in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 2))
        rows = [{name: draw(_cells(kind)) for name, kind in columns.items()} for _ in range(count)]
        partition = {name: rows[0][name] for name in partitioned}
        texts = {name: None if value is None else _partition_text(value) for name, value in partition.items()}
        data = {name: [row[name] for row in rows] for name in columns if name not in partitioned}
        name = f"{number}.parquet"
        table.commit(table.add(data, texts, name=name, stats=draw(st.sampled_from([True, True, False]))))
        files[name] = [row | partition for row in rows]
    return table.snapshot(), files


def _cells(kind: str) -> st.SearchStrategy[Any]:
    """Values and nulls; no empty text, which as a partition value is null."""
    return st.one_of(VALUES[kind], VALUES[kind], st.none()).filter(lambda value: value != "")


def _partition_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value).replace("nan", "NaN").replace("inf", "Infinity")


# Text


def to_json(node: Node) -> str:
    return json.dumps(_tree(node))


def _tree(node: Node) -> Any:
    match node.op:
        case "column":
            return {"op": "column", "name": node.name, "valueType": node.value_type}
        case "literal":
            return {"op": "literal", "value": _text(node.value), "valueType": node.value_type}
    return {"op": node.op, "children": [_tree(child) for child in node.children]}


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case datetime():  # as Spark's client does: cut to milliseconds, towards the epoch
            since = value - _EPOCH
            cut = since // _MILLISECOND if since >= timedelta(0) else -(-since // _MILLISECOND)
            return (_EPOCH + cut * _MILLISECOND).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return str(value).replace("nan", "NaN").replace("inf", "Infinity")


# Row by row


def matches(node: Node, row: Row) -> bool:
    """Whether the row is in the result under any reading."""
    return any(_condition(node, row, reading) is True for reading in READINGS)


def _condition(node: Node, row: Row, reading: Reading) -> bool | None:
    match node.op:
        case "and":
            sides = {_condition(child, row, reading) for child in node.children}
            return False if False in sides else None if None in sides else True
        case "or":
            sides = {_condition(child, row, reading) for child in node.children}
            return True if True in sides else None if None in sides else False
        case "not":
            value = _condition(node.children[0], row, reading)
            return None if value is None else not value
        case "isNull":
            return _value(node.children[0], row) is None
        case "column" | "literal":
            flag = _value(node, row)
            return bool(flag) if flag is not None else None if reading.with_null else False
    left, right = (_value(child, row) for child in node.children)
    if left is None or right is None:
        return None if reading.with_null else False
    return compare(node.op, left, right, reading.nan_is_greatest)


def compare(op: str, left: Any, right: Any, nan_is_greatest: bool) -> bool:
    if isinstance(left, float) and isinstance(right, float) and nan_is_greatest:
        left, right = (left != left, 0.0 if left != left else left), (right != right, 0.0 if right != right else right)
    elif isinstance(left, str):
        left, right = left.encode(), right.encode()
    return COMPARE[op](left, right)


def _value(node: Node, row: Row) -> Any:
    value = row[node.name] if node.op == "column" else node.value
    if value is None:
        return None
    match node.value_type:
        case "int":
            return (value + 2**31) % 2**32 - 2**31
        case "float":
            return _single(float(value))
        case "double":
            return float(value)
    return value


def _single(value: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return _INF if value > 0 else -_INF
    return rounded


def kept(snapshot: Snapshot, predicate: Any) -> set[str]:
    scan = snapshot.scan_builder().with_filter(predicate).build()
    return {file.path.rsplit("/", 1)[-1] for file in scan.files()}
