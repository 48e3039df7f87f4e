"""Filters while decoding: the same rows at the same positions as from the whole file, by each way."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport import tables
from lakeport.engine.expressions import ArrowExpressions
from lakeport.engine.parquet.polars_rows import PolarsRows
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.engine.storage.ranges import open_ranges
from lakeport.kernel.engine import ROW_INDEX, FileSplit, FileStatus
from lakeport.kernel.expressions import Expression, bind, col, normalize
from lakeport.kernel.schema import schema_from_arrow
from tests.engine.filtering_engines import FILTERING, filtering_files

MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
    pa.int16(): st.integers(-3, 3),
    pa.bool_(): st.booleans(),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, -2.0, math.nan, math.inf, -math.inf]),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf]),
    pa.string(): st.sampled_from(["", "a", "ab", "é", "\U0001f600", "\ue000"]),
    pa.binary(): st.sampled_from([b"", b"a", b"\xff", b"\x00"]),
    pa.date32(): st.dates(),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", "UTC"): MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.decimal128(7, 2): st.decimals(-99999, 99999, places=2),
    pa.decimal128(38, 4): st.decimals(-(10**20), 10**20, places=4).filter(lambda value: value.is_finite()),
}
KINDS = {f"c{index}": kind for index, kind in enumerate(VALUES)}
OPERATORS: list[Callable[[Any, Any], Any]] = [eq, ne, lt, le, gt, ge]


def conditions(name: str, kind: pa.DataType) -> st.SearchStrategy[Expression]:
    column, value = col(name), VALUES[kind]
    return st.one_of(
        st.builds(lambda operator, literal: operator(column, literal), st.sampled_from(OPERATORS), value),
        st.lists(value, min_size=1, max_size=3).map(column.isin),
        value.map(column.equals_null_safe),
        st.sampled_from([column.is_null(), column.is_not_null()]),
    )


FILTERS = st.recursive(
    st.one_of([conditions(name, kind) for name, kind in KINDS.items()]),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(lambda a: ~a),
    ),
    max_leaves=4,
)
TABLES = st.integers(0, 30).flatmap(
    lambda rows: st.fixed_dictionaries(
        {name: st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows) for name, kind in KINDS.items()}
    )
)


def written(folder: str, columns: dict[str, list[Any]], group: int) -> tuple[FileStatus, pa.Table]:
    table = pa.table({name: pa.array(values, KINDS[name]) for name, values in columns.items()})
    path = Path(folder, "f.parquet")
    pq.write_table(table, path, row_group_size=group)
    return FileStatus(str(path), path.stat().st_size), table


def bound(condition: Expression) -> Expression:
    schema = schema_from_arrow(pa.schema(KINDS.items()))
    return normalize(bind(condition, schema), schema)


def matching(rows: pa.Table, predicate: Expression) -> pa.Table:
    select = ArrowExpressions().predicate_evaluator(rows.schema, predicate)
    return pa.Table.from_batches([batch.filter(select(batch, None)) for batch in rows.to_batches()], rows.schema)


@pytest.mark.parametrize("way", FILTERING)
@given(columns=TABLES, condition=FILTERS, group=st.integers(1, 40), batch_size=st.sampled_from([1, 5, 100]))
def test_every_way_finds_the_rows_that_match(
    way: str, columns: dict[str, list[Any]], condition: Expression, group: int, batch_size: int
) -> None:
    predicate = bound(condition)
    with TemporaryDirectory() as folder:
        file, table = written(folder, columns, group)
        asked = pa.schema([*table.schema, ROW_INDEX])
        batches = FILTERING[way].parquet.read_parquet_files([FileSplit(file)], asked, predicate, batch_size)
        found = pa.Table.from_batches(batches, asked)
    positions = pa.array(np.arange(table.num_rows))
    expected = matching(table.append_column(ROW_INDEX, positions), predicate)
    assert repr(matching(found, predicate).to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("way", FILTERING)
def test_rows_that_do_not_match_are_left_out(way: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(1000), "t": ["a"] * 1000}), tmp_path / "f", row_group_size=500)
    file = FileStatus(str(tmp_path / "f"), 1000)
    asked = pa.schema([("t", pa.string()), ROW_INDEX, ("n", pa.int64())])
    condition = (col("n") == 3) | (col("n") == 777)
    for splits in ([FileSplit(file)], [FileSplit(file, 0, 1), FileSplit(file, 1, 2)]):
        found = FILTERING[way].parquet.read_parquet_files(splits, asked, condition)
        rows = [row for batch in found for row in batch.to_pylist()]
        assert rows == [{"t": "a", ROW_INDEX.name: n, "n": n} for n in (3, 777)]


LARGE, SMALL = FileStatus("/t/large", 200 << 20), FileStatus("/t/small", 1000)


@pytest.mark.parametrize(
    ("first", "files", "expected"),
    [
        ("pass", [LARGE], True),
        ("pass", [FileStatus("/t/a", 2 << 20)] * 20, False),
        ("import polars", [FileStatus("/t/a", 2 << 20)], True),
        ("import polars", [SMALL] * 3, False),
        ("import polars", [FileStatus("s3://t/large", LARGE.size)], True),
        ("import sys; sys.modules['polars'] = None", [LARGE], False),
    ],
)
def test_polars_is_used_where_it_is_loaded_or_worth_loading(
    first: str, files: list[FileStatus], expected: bool
) -> None:
    code = f"{first}\nfrom lakeport.kernel.engine import FileStatus\nfrom lakeport.engine.parquet import uses_polars\n"
    run = subprocess.run([sys.executable, "-c", f"{code}print(uses_polars({files}))"], capture_output=True, text=True)
    assert run.stdout == f"{expected}\n", run.stderr


class Remote(MemoryStorage):
    """A storage whose larger files are read by ranges. Counts the bytes."""

    taken = 0

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, start, length)
        self.taken += len(data)
        return data

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return open_ranges(self, file)


@pytest.mark.parametrize("rows", [1000, 400_000])
def test_polars_filters_what_was_fetched_of_a_remote_file(rows: int) -> None:
    random = np.random.default_rng(1)
    table = pa.table({name: random.permutation(rows) for name in ("a", "b", "c", "d")})
    storage = Remote()
    pq.write_table(table, content := pa.BufferOutputStream(), row_group_size=rows // 4, compression="none")
    storage.write("test://f", content.getvalue().to_pybytes())
    size = content.getvalue().size
    asked = pa.schema([("c", pa.int64()), ROW_INDEX, ("a", pa.int64())])
    condition = (col("a") < 10) & (col("c") >= 5)
    files = filtering_files(PolarsRows, storage)
    batches = list(files.read_parquet_files([FileSplit(FileStatus("test://f", size))], asked, condition, rows // 2))
    places = np.flatnonzero((table["a"].to_numpy() < 10) & (table["c"].to_numpy() >= 5))
    found = pa.Table.from_batches(batches, asked)
    assert found[ROW_INDEX.name].to_pylist() == places.tolist()
    assert found.select(["c", "a"]).equals(table.select(["c", "a"]).take(pa.array(places)))
    assert storage.taken <= (size if rows == 1000 else size * 0.6)


FORKED = """
import os, signal, sys
import polars, lakeport
from lakeport import col
rows = lakeport.scan(sys.argv[1]).where(col("n") == 7)
assert "Polars" in rows.explain()
assert rows.to_arrow().num_rows == 1
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(50)
os._exit(rows.to_arrow().num_rows)
"""


def test_a_forked_process_reads_without_the_threads_of_polars(tmp_path: Path) -> None:
    tables.create(str(tmp_path), pa.table({"n": np.random.default_rng(1).permutation(1 << 19)}))
    run = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], timeout=60)
    assert run.returncode == 1
