"""Random histories of tables of random columns, whose files were written by many libraries: after each operation the
rows are those of a plain model, statistics are true, and in the end every reader at hand gives the same rows."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import lakeport
from lakeport import col, lit, tables
from lakeport.tables.rows import column_editing
from tests.engine.column_editing.writers import WRITERS
from tests.examples import histories
from tests.properties import VECTORS
from tests.rows import Row, counted

LONGS = st.integers(-(2**40), 2**40)
DOUBLES = st.sampled_from([0.0, -0.0, math.nan, math.inf, -1.5, 1e300, 7.25])
TEXTS = st.sampled_from(["", "a", "ä\U0001f600" * 20, "x" * 70, "x" * 69 + "\U0010ffff", "kind 1", "kind 2"])
DAYS = st.dates(date(1900, 1, 1), date(2100, 1, 1))
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(lambda time: time.replace(microsecond=0))
CENTS = st.integers(-(10**11), 10**11).map(lambda cents: Decimal(cents).scaleb(-2))
LARGE = st.integers(-(10**37), 10**37).map(lambda units: Decimal(units).scaleb(-10))

ALWAYS = {"x": (pa.float64(), DOUBLES), "text": (pa.string(), TEXTS)}
OTHERS: Mapping[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "n": (pa.int32(), st.integers(-9, 9)),
    "single": (pa.float32(), DOUBLES.filter(lambda value: value != 1e300)),
    "day": (pa.date32(), DAYS),
    "moment": (pa.timestamp("us", "UTC"), TIMES.map(lambda time: time.replace(tzinfo=UTC))),
    "local": (pa.timestamp("us"), TIMES),
    "price": (pa.decimal128(12, 2), CENTS),
    "large": (pa.decimal128(38, 10), LARGE),
    "raw": (pa.binary(), st.binary(max_size=5)),
    "flag": (pa.bool_(), st.booleans()),
    "s": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.none() | LONGS, "b": st.none() | TEXTS}),
    ),
    "items": (pa.list_(pa.float64()), st.lists(st.none() | DOUBLES, max_size=3)),
}
COLUMNS = st.lists(st.sampled_from(sorted(OTHERS)), unique=True, max_size=5).map(lambda names: [*ALWAYS, *names])
KINDS = {**ALWAYS, **OTHERS}
RANGES = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda pair: range(pair[0], sum(pair)))


class ForeignFiles(RuleBasedStateMachine):
    """A table whose rows have ids, each of them once."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "t")
        self.rows: dict[int, Row] = {}
        self.next_id = self.files = 0

    def teardown(self) -> None:
        try:
            if hasattr(self, "schema"):
                for name, found in self.readers():
                    assert self.as_counted(found) == counted(self.rows.values()), name
        finally:
            self.folder.cleanup()

    @initialize(columns=COLUMNS, vectors=st.booleans())
    def create(self, columns: list[str], vectors: bool) -> None:
        self.schema = pa.schema([("id", pa.int64()), *((name, KINDS[name][0]) for name in columns)])
        tables.create(self.path, schema=self.schema, properties=VECTORS if vectors else {})

    # Rows

    def new_rows(self, data: st.DataObject, count: int) -> list[Row]:
        """Rows with new ids: a few drawn ones again and again, so that files have dictionaries and runs."""
        names = self.schema.names[1:]
        one = st.fixed_dictionaries({name: st.none() | KINDS[name][1] for name in names})
        drawn = data.draw(st.lists(one, min_size=1, max_size=4))
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        return [{"id": number, **drawn[number % len(drawn)]} for number in ids]

    def arrow(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, self.schema)

    def keep(self, rows: list[Row]) -> None:
        self.rows |= {row["id"]: row for row in self.arrow(rows).to_pylist()}

    # Operations

    @rule(data=st.data(), count=st.integers(1, 40))
    def append(self, data: st.DataObject, count: int) -> None:
        rows = self.new_rows(data, count)
        tables.append(self.path, self.arrow(rows))
        self.keep(rows)

    @rule(data=st.data(), writer=st.sampled_from(sorted(WRITERS)), count=st.integers(1, 60), has_stats=st.booleans())
    def add_foreign_file(self, data: st.DataObject, writer: str, count: int, has_stats: bool) -> None:
        rows = self.new_rows(data, count)
        file = Path(self.path, f"foreign-{self.files}.parquet")
        self.files += 1
        WRITERS[writer](file, self.arrow(rows))
        version = lakeport.scan(self.path).version + 1
        stats = {"stats": json.dumps({"numRecords": count})} if has_stats else {}
        size, path = file.stat().st_size, file.name
        add = {"path": path, "size": size, "partitionValues": {}, "modificationTime": 0, "dataChange": True, **stats}
        actions = ({"commitInfo": {"operation": "WRITE"}}, {"add": add})
        Path(self.path, "_delta_log", f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
        self.keep(rows)

    @rule(data=st.data(), ids=RANGES)
    def update(self, data: st.DataObject, ids: range) -> None:
        names = data.draw(st.lists(st.sampled_from(self.schema.names[1:]), min_size=1, max_size=2, unique=True))
        (row,) = self.new_rows(data, 1)
        values = {name: row[name] for name in names}
        given = {name: lit(value) if isinstance(value, str) else value for name, value in values.items()}
        tables.update(self.path, given, (col("id") >= ids.start) & (col("id") < ids.stop))
        self.keep([self.rows[number] | values for number in ids if number in self.rows])

    @rule(ids=RANGES)
    def delete(self, ids: range) -> None:
        tables.delete(self.path, f"id >= {ids.start} AND id < {ids.stop}")
        self.rows = {number: row for number, row in self.rows.items() if number not in ids}

    @rule(data=st.data(), ids=RANGES, limit=st.sampled_from([None, 1]), some=st.booleans())
    def merge(self, data: st.DataObject, ids: range, limit: int | None, some: bool) -> None:
        """Updates rows that are there, with all columns or with one, and inserts others."""
        rows = [row | {"id": number} for row, number in zip(self.new_rows(data, len(ids)), ids, strict=True)]
        self.next_id = max(self.next_id, ids.stop)
        merge = tables.merge(self.path, self.arrow(rows), "target.id = source.id", memory_limit=limit)
        name = data.draw(st.sampled_from(self.schema.names[1:]))
        one = merge.when_matched_update({name: col(("source", name))})
        (one if some else merge.when_matched_update_all()).when_not_matched_insert_all().execute()
        is_known = [some and row["id"] in self.rows for row in rows]
        new = [
            self.rows[row["id"]] | {name: row[name]} if known else row
            for row, known in zip(rows, is_known, strict=True)
        ]
        self.keep(new)

    @rule(order=st.sampled_from(["zorder_by", "cluster_by", None]), purge=st.booleans())
    def optimize(self, order: str | None, purge: bool) -> None:
        by: dict[str, Any] = {order: ["text", "id"], "target_size": 4_000} if order else {"purge": purge}
        tables.optimize(self.path, **by)

    # What holds after each of them

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "schema"):
            frame = lakeport.scan(self.path)
            assert self.as_counted(frame.to_arrow()) == counted(self.rows.values())
            number = self.next_id // 2
            found = frame.where(f"id = {number}").to_arrow().to_pylist()
            assert counted(found) == counted([self.rows[number]] if number in self.rows else [])

    @invariant()
    def statistics_are_true(self) -> None:
        if hasattr(self, "schema"):
            for file in lakeport.scan(self.path).files():
                check_statistics(json.loads(file.stats or "{}", parse_float=Decimal), pq.read_table(file.path))

    def readers(self) -> Iterator[tuple[str, pa.Table]]:
        frame = lakeport.scan(self.path)
        yield (
            "deltalake",
            pa.table(QueryBuilder().register("t", DeltaTable(self.path)).execute("SELECT * FROM t").read_all()),
        )
        yield "DuckDB", frame.to_duckdb().to_arrow_table()
        yield "Polars", frame.to_polars().to_arrow()
        if all(file.deletion_vector is None for file in frame.files()):
            parts = [pq.read_table(file.path) for file in frame.files()]
            yield "pyarrow", pa.concat_tables([self.schema.empty_table(), *(part.cast(self.schema) for part in parts)])

    def as_counted(self, found: pa.Table) -> Any:
        return counted(found.select(self.schema.names).cast(self.schema).to_pylist())


def check_statistics(stats: Mapping[str, Any], rows: pa.Table) -> None:
    """Compares with the rows of the whole file, deleted ones included."""
    assert stats.get("numRecords", rows.num_rows) == rows.num_rows
    leaves = {(name,): rows[name].to_pylist() for name in rows.column_names}
    for structs in filter(None, [leaves.pop(("s",), None)]):
        leaves |= {("s", name): [struct and struct[name] for struct in structs] for name in ("a", "b")}
    for path, values in leaves.items():
        known = [comparable(value) for value in values if value is not None and value == value]
        if (nulls := at(stats.get("nullCount"), path)) is not None:
            assert nulls == sum(value is None for value in values), path
        for kind, holds in (("minValues", min), ("maxValues", max)):
            if (bound := at(stats.get(kind), path)) is not None and known:
                bound = float(bound) if isinstance(known[0], float) else bound
                assert holds([bound, *known]) == bound, f"{path}: {kind} {bound}"


def at(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        values = None if values is None else values.get(name)
    return values


def comparable(value: Any) -> Any:
    """A value in the form that statistics have."""
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
    return value


def test_whatever_libraries_write_is_changed_as_a_plain_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are edited, too, as large ones are."""
    monkeypatch.setattr(column_editing, "_SMALL_FILE", 0)
    monkeypatch.setattr(column_editing, "_SMALL_CHUNK", 0)
    run_state_machine_as_test(ForeignFiles, settings=histories(25, stateful_step_count=12))
