"""Filters that are pushed down: the rows are those that Spark itself would have chosen, and fewer files are read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import datasource as pushed
from pyspark.sql import functions as F  # noqa: N812  # as all of PySpark's documentation has it

import lakeport
from lakeport import tables
from lakeport.engine import default_engine
from lakeport.frame import Frame
from lakeport.kernel.schema import ArrayType, PrimitiveType
from lakeport.spark.formats import FilteringReader, split_filters, to_condition
from lakeport.spark.schemas import to_spark_schema
from lakeport.spark.tasks import TaskPartition
from lakeport.testing.builder import TableBuilder, protocol, struct
from tests.client.shares import profile_text
from tests.examples import examples
from tests.parts import write_parts
from tests.server.running import running, sharing
from tests.spark.conftest import PUSHDOWN
from tests.spark.ways import read_lakeport, read_shared

NAN = float("nan")


def scaled(number: int, scale: int) -> Decimal:
    return Decimal(number).scaleb(-scale, Context(prec=50))


VALUES: dict[str, tuple[st.SearchStrategy[Any], list[Any]]] = {
    "boolean": (st.booleans(), [True, False]),
    "byte": (st.integers(-128, 127), [-128, 0, 127]),
    "short": (st.integers(-(2**15), 2**15 - 1), [-1, 0, 1]),
    "integer": (st.integers(-(2**31), 2**31 - 1), [-(2**31), 0, 2**31 - 1]),
    "long": (st.integers(-(2**63), 2**63 - 1), [-(2**63), 2**53 + 1, 2**63 - 1]),
    "float": (st.floats(width=32), [NAN, -0.0, 0.0, math.inf, -math.inf, 1.5]),
    "double": (st.floats(), [NAN, -0.0, 0.0, math.inf, 5e-324, 1.5]),
    "string": (st.text(max_size=6), ["", "%", "_", "a_b%", "\\", "a\\b", "é😀", "ab", "\x00"]),
    "binary": (st.binary(max_size=4), [b"", b"\x00", b"\xff"]),
    "date": (st.dates(), [date(1, 1, 1), date(1582, 10, 10), date(2026, 1, 1)]),
    "timestamp": (
        st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
        [datetime(1500, 1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
    ),
    "timestamp_ntz": (
        st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
        [datetime(1500, 1, 1), datetime(2026, 3, 29, 2, 30)],
    ),
    "decimal(5,2)": (st.integers(-99999, 99999).map(lambda n: scaled(n, 2)), [scaled(0, 2), scaled(-99999, 2)]),
    "decimal(38,10)": (st.integers(1 - 10**38, 10**38 - 1).map(lambda n: scaled(n, 10)), [scaled(10**37, 10)]),
}
SPARK_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
TYPES = list(VALUES)
SCHEMA = struct(id="long", s=struct(**{t: t for t in TYPES}), **{t: t for t in TYPES})


@dataclass(frozen=True)
class Case:
    """A filter as a column of Spark, and as Spark pushes it."""

    name: str
    column: Column
    filter: pushed.Filter


COMPARISONS: dict[str, tuple[Callable[[Column, Column], Column], type[Any]]] = {
    "=": (lambda c, v: c == v, pushed.EqualTo),
    "<=>": (lambda c, v: c.eqNullSafe(v), pushed.EqualNullSafe),
    "<": (lambda c, v: c < v, pushed.LessThan),
    "<=": (lambda c, v: c <= v, pushed.LessThanOrEqual),
    ">": (lambda c, v: c > v, pushed.GreaterThan),
    ">=": (lambda c, v: c >= v, pushed.GreaterThanOrEqual),
}
TEXT_SEARCHES: dict[str, tuple[Callable[[Column, Column], Column], type[Any]]] = {
    "starts with": (lambda c, v: c.startswith(v), pushed.StringStartsWith),
    "ends with": (lambda c, v: c.endswith(v), pushed.StringEndsWith),
    "contains": (lambda c, v: c.contains(v), pushed.StringContains),
}


def literal(value: Any, kind: str) -> Column:
    """The value as a literal of the type, whatever the zone of this machine."""
    match value:
        case datetime() | date():
            return F.lit(value.isoformat()).cast(kind)
        case Decimal() | float():
            return F.lit(str(value)).cast(kind)
    return F.lit(value) if isinstance(value, str | bytes | bool) else F.lit(str(value)).cast(SPARK_NAMES[kind])


def cases_for(path: tuple[str, ...], kind: str, values: list[Any]) -> Iterator[Case]:
    column = reduce(lambda found, name: found[name], path[1:], F.col(path[0]))
    where = ".".join(path)
    yield Case(f"{where} is null", column.isNull(), pushed.IsNull(path))
    yield Case(f"{where} is not null", column.isNotNull(), pushed.IsNotNull(path))
    for value in values:
        found = literal(value, kind)
        for op, (build, filter_type) in {**COMPARISONS, **(TEXT_SEARCHES if kind == "string" else {})}.items():
            yield Case(f"{where} {op} {value!r}", build(column, found), filter_type(path, value))
    chosen = column.isin([literal(value, kind) for value in values])
    yield Case(f"{where} in {values!r}", chosen, pushed.In(path, tuple(values)))


def with_negated(cases: Iterator[Case]) -> Iterator[Case]:
    for case in cases:
        yield case
        yield Case(f"not {case.name}", ~case.column, pushed.Not(case.filter))


def write(root: Path, files: list[list[dict[str, Any]]]) -> str:
    """A table with the columns of `SCHEMA`, and files with the statistics that Spark would write."""
    builder = TableBuilder(default_engine(), str(root), SCHEMA, protocol=protocol(features=["timestampNtz"]))
    adds = [builder.add({n: [row.get(n) for row in rows] for n in SCHEMA.names}) for rows in files]
    builder.create(*adds)
    return str(root)


def rows_by_pushing(table: Frame, found: pushed.Filter) -> list[int] | None:
    """The rows that a reader gives if the filter is pushed; None if it leaves the filter to Spark."""
    reader = FilteringReader(table, to_spark_schema(struct(id="long")))
    if list(reader.pushFilters([found])):
        return None
    return sorted(number for task in tasks_of(reader) for number in ids_in(reader, task))


def tasks_of(reader: FilteringReader) -> list[TaskPartition]:
    return [partition for partition in reader.partitions() if isinstance(partition, TaskPartition)]


def ids_in(reader: FilteringReader, partition: TaskPartition) -> Iterator[int]:
    in_task, arguments = reader.__reduce__()
    for batch in in_task(*arguments).read(partition):
        yield from batch.column(0).to_pylist()


# Whatever is taken is exact.

FLOATS = ("float", "double")


def is_left(found: pushed.Filter) -> bool:
    """Whether Spark has to decide: where NaN is in play, which it holds to be the greatest number, and early times."""
    inner = found.child if isinstance(found, pushed.Not) else found
    if isinstance(inner, pushed.IsNull | pushed.IsNotNull):
        return False
    values = inner.value if isinstance(inner, pushed.In) else [inner.value]  # type: ignore[attr-defined]
    above = isinstance(inner, pushed.GreaterThan | pushed.GreaterThanOrEqual)
    name = inner.attribute[-1]  # type: ignore[attr-defined]
    early = any(isinstance(value, date) and value.year <= 1900 for value in values)
    return (name in FLOATS and above) or early or any(value != value for value in values)


def decided_by_spark(table: DataFrame, cases: list[Case]) -> pa.Table:
    """Where each filter holds, as columns by the numbers of the cases. Spark works them out row by row: to compile so
    many of them would take minutes."""
    conf = table.sparkSession.conf
    conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        return table.select("id", *(case.column.alias(str(n)) for n, case in enumerate(cases))).toArrow()
    finally:
        conf.unset("spark.sql.codegen.factoryMode")
        conf.unset("spark.sql.codegen.wholeStage")


@st.composite
def made_rows(draw: st.DrawFn) -> tuple[list[list[dict[str, Any]]], dict[str, list[Any]]]:
    """Rows in three files, and values to ask for, some of which are in the rows."""
    kinds = {kind: st.sampled_from(edges) | strategy for kind, (strategy, edges) in VALUES.items()}
    columns = {kind: draw(st.lists(st.none() | kinds[kind], min_size=9, max_size=9)) for kind in TYPES}
    rows = [
        {"id": number, **{kind: columns[kind][number] for kind in TYPES}}
        | {"s": None if number == 4 else {kind: columns[kind][8 - number] for kind in TYPES}}
        for number in range(9)
    ]
    known = {kind: [value for value in columns[kind] if value is not None] for kind in TYPES}
    asked = {kind: [draw(st.sampled_from(known[kind]) if known[kind] else kinds[kind])] for kind in TYPES}
    return [rows[:3], rows[3:6], rows[6:]], asked


@examples(5, suppress_health_check=list(HealthCheck))
@given(made_rows())
def test_what_is_taken_is_decided_as_spark_decides_it(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    made: tuple[list[list[dict[str, Any]]], dict[str, list[Any]]],
) -> None:
    files, asked = made
    path = write(tmp_path_factory.mktemp("any"), files)
    cases = [case for k in TYPES for case in with_negated(cases_for((k,), k, asked[k]))]
    cases += [case for k in TYPES for case in cases_for(("s", k), k, asked[k])]
    answers = decided_by_spark(read_lakeport(spark, path), cases)
    ids, table = answers.column("id").to_pylist(), lakeport.scan(path)
    for number, case in enumerate(cases):
        chosen = answers.column(str(number)).to_pylist()
        found = rows_by_pushing(table, case.filter)
        assert (found is None) is is_left(case.filter), case.name
        if found is not None:
            assert found == sorted(i for i, holds in zip(ids, chosen, strict=True) if holds), case.name


def test_filters_that_mean_something_else_in_spark_are_left_to_it() -> None:
    schema = struct(d="double", f="float", id="long", day="date")
    left = [
        pushed.GreaterThan(("d",), 1.0),
        pushed.GreaterThanOrEqual(("f",), 1.0),
        pushed.Not(pushed.GreaterThan(("d",), 1.0)),
        pushed.EqualTo(("d",), NAN),
        pushed.In(("d",), (1.0, NAN)),
        pushed.In(("id",), (1, None)),
        pushed.EqualTo(("id",), None),
        pushed.EqualTo(("unknown",), 1),
        pushed.EqualTo(("day",), date(1582, 10, 15)),
        pushed.StringContains(("id",), "1"),
    ]
    taken = [pushed.EqualNullSafe(("id",), None), pushed.LessThan(("d",), 1.0), pushed.In(("id",), (1, 2))]
    conditions, found = split_filters([*left, *taken], schema)
    assert found == left
    assert len(conditions) == len(taken)


def test_columns_without_an_order_are_asked_for_nulls_only() -> None:
    schema = struct(a=ArrayType(PrimitiveType("long")), s=struct(x="long"), v="variant", n="void")
    for name in schema.names:
        assert to_condition(pushed.IsNull((name,)), schema) is not None
        assert to_condition(pushed.Not(pushed.IsNotNull((name,))), schema) is not None
    assert to_condition(pushed.EqualTo(("a",), [1]), schema) is None


# Spark pushes them.


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Each type's values that are likely to go wrong, with nulls."""
    most = max(len(known) for _, known in VALUES.values()) + 1
    columns = {kind: [*known, *[None] * (most - len(known))] for kind, (_, known) in VALUES.items()}
    rows = [{kind: columns[kind][number] for kind in TYPES} for number in range(most)]
    rows = [{"id": number, **row, "s": rows[-number]} for number, row in enumerate(rows)]
    return write(tmp_path_factory.mktemp("edges") / "t", [rows[:4], rows[4:]])


QUICK = {"string", "double", "timestamp", "decimal(38,10)"}
OTHERS = pytest.mark.exhaustive(instead="types of other kinds here, all types in what is taken")


@pytest.mark.parametrize("kind", [kind if kind in QUICK else pytest.param(kind, marks=OTHERS) for kind in TYPES])
def test_the_rows_are_the_same_with_and_without_pushing(spark: SparkSession, edges: str, kind: str) -> None:
    values = VALUES[kind][1]
    cases = [case for value in values for case in cases_for((kind,), kind, [value]) if f"{kind} = " in case.name]
    cases += [*cases_for((kind,), kind, values[:1]), *with_negated(cases_for(("s", kind), kind, values[-1:]))][2:16]
    table = read_lakeport(spark, edges)
    decided = decided_by_spark(table, cases).to_pylist()
    spark.conf.set(PUSHDOWN, "true")
    try:
        filtered = [
            read_lakeport(spark, edges, pushFilters=True).where(case.column).select("id", F.lit(n).alias("case"))
            for n, case in enumerate(cases)
        ]
        rows = reduce(DataFrame.union, filtered).toArrow().to_pylist()
    finally:
        spark.conf.unset(PUSHDOWN)
    found = {(row["case"], row["id"]) for row in rows}
    for number, case in enumerate(cases):
        expected = {(number, row["id"]) for row in decided if row[str(number)]}
        assert {one for one in found if one[0] == number} == expected, case.name
    assert len(found) == len(rows)


def plan_of(df: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    df.explain()
    return capsys.readouterr().out


def test_spark_does_not_filter_again_what_was_taken(
    pushing: SparkSession, edges: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def filtered(condition: str) -> DataFrame:
        return read_lakeport(pushing, edges, pushFilters=True).where(condition)

    taken = plan_of(filtered("s.long <= 5 AND string LIKE 'a%' AND id IN (1, 2)"), capsys)
    assert "Filter" not in taken.replace("RuntimeFilters", "")
    left = plan_of(filtered("double > 0.5 AND id = 1 AND (id = 1 OR string = 'a')"), capsys)
    assert re.search(r"Filter .*double.* > 0\.5", left)
    assert "id = 1)" not in left.split("OR")[0]


# Fewer files


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten files, each of a day and of ids of its own."""
    path = tmp_path_factory.mktemp("days") / "days"
    parts = (
        [{"id": number * 10 + i, "day": f"2026-01-{number + 1:02}", "s": {"x": number}} for i in range(10)]
        for number in range(10)
    )
    write_parts(path, parts, partition_by=["day"])
    return path


@pytest.mark.parametrize(
    ("found", "files"),
    [
        (pushed.EqualTo(("day",), "2026-01-04"), 1),
        (pushed.In(("day",), ("2026-01-04", "2026-01-05", "2027-01-01")), 2),
        (pushed.StringStartsWith(("day",), "2026-01-1"), 1),
        (pushed.Not(pushed.EqualTo(("day",), "2026-01-04")), 9),
        (pushed.LessThan(("id",), 15), 2),
        (pushed.GreaterThanOrEqual(("s", "x"), 7), 3),
        (pushed.IsNull(("id",)), 0),
    ],
    ids=["partition", "partitions", "prefix", "negated", "statistics", "nested", "nulls"],
)
def test_files_that_hold_none_of_the_rows_are_not_planned(days: Path, found: pushed.Filter, files: int) -> None:
    frame = lakeport.scan(str(days))
    reader = FilteringReader(frame, to_spark_schema(frame.full_schema))
    assert list(reader.pushFilters([found])) == []
    assert sum(len(partition.task.pieces) for partition in tasks_of(reader)) == files


def test_a_server_gets_the_filters_and_leaves_files_out(pushing: SparkSession, days: Path, tmp_path: Path) -> None:
    log, profile = tmp_path / "audit.jsonl", tmp_path / "config.share"
    with running(sharing({"sales.eu.days": days}), audit_log=str(log)) as server:
        profile.write_text(profile_text(server.endpoint))
        target = f"{profile}#sales.eu.days"
        for condition, count in (("day = '2026-01-04' AND id > 35", 4), ("day > '2026-01-08' AND id < 90", 10)):
            assert read_shared(pushing, target, pushFilters=True).where(condition).count() == count
        pushing.conf.unset(PUSHDOWN)
        assert read_shared(pushing, target, pushFilters=True).where("day = '2026-01-04'").count() == 10
    queries = [json.loads(line) for line in log.read_text().splitlines()]
    queries = [query for query in queries if query["operation"] == "queryTable"]
    assert [query["files"] for query in queries] == [1, 1, 10]
    assert "2026-01-04" in json.dumps(queries[0]["jsonPredicateHints"])
    assert queries[2].get("jsonPredicateHints") is None


def test_a_frame_may_be_used_in_several_queries(pushing: SparkSession, tmp_path: Path) -> None:
    """Spark keeps the plan of the last filter that was pushed, for all queries over a frame: so none is taken unless
    that is asked for."""
    path = str(tmp_path / "t")
    tables.create(path, {"id": list(range(10))})
    table = read_lakeport(pushing, path)
    assert [table.where("id = 1").count(), table.where("id < 3").count(), table.count()] == [1, 3, 10]
    both = table.where("id = 3").union(table.where("id = 4")).collect()
    assert [row.id for row in both] == [3, 4]
    table.createOrReplaceTempView("several")
    joined = "SELECT count(*) FROM several a JOIN several b ON a.id = b.id + 1 WHERE a.id < 5 AND b.id > 1"
    assert pushing.sql(joined).collect()[0][0] == 2


def test_changes_are_filtered_too(pushing: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2, 3]}, properties={"delta.enableChangeDataFeed": "true"})
    tables.delete(path, "id = 2")

    def changes(condition: str) -> list[tuple[int, int]]:
        feed = read_lakeport(pushing, path, readChangeFeed=True, startingVersion=0, pushFilters=True)
        return [(row.id, row._commit_version) for row in feed.where(condition).collect()]

    assert changes("_change_type = 'delete' AND id < 3") == [(2, 1)]
    assert sorted(changes("_commit_version = 0")) == [(1, 0), (2, 0), (3, 0)]
