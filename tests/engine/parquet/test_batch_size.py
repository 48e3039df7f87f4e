"""A stream has small batches whatever its values are: a file does not show how long its texts are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport import tables
from lakeport.engine.parquet import ParquetFiles
from lakeport.engine.parquet.batch_size import BatchSize
from lakeport.engine.storage import Storage
from lakeport.kernel.engine import ROW_INDEX, FileSplit, FileStatus
from lakeport.kernel.expressions import bind, col, normalize
from lakeport.kernel.schema import schema_from_arrow
from tests.engine.filtering_engines import FILTERING

MB = 1 << 20
ROWS = 40_000


def texts(distinct: int, length: int, rows: int = ROWS) -> pa.Array:
    """Texts of this length, of which each occurs many times."""
    words = pa.array([f"{number:07}" + "x" * (length - 7) for number in range(distinct)])
    return words.take(pa.array(np.random.default_rng(4).integers(0, distinct, rows)))


def mostly_one_long() -> pa.Array:
    lengths = np.where(np.arange(ROWS) < ROWS // 2, 3, 5_000)
    return pa.array(["y" * length for length in lengths])


TABLES: dict[str, Callable[[], pa.Table]] = {
    "long texts that repeat": lambda: pa.table({"t": texts(20, 5_000)}),
    "longer than a dictionary may be": lambda: pa.table({"t": texts(600, 5_000)}),
    "several columns": lambda: pa.table({name: texts(50, 300) for name in "abcdefgh"}),
    "long ones at the end": lambda: pa.table({"t": mostly_one_long()}),
    "wide rows of few values": lambda: pa.table({f"n{n}": np.zeros(ROWS // 4, np.int64) for n in range(500)}),
    "lists": lambda: pa.table({"l": pa.ListArray.from_arrays(range(0, ROWS + 1, 4), texts(30, 2_000))}),
}


def written(folder: Path, table: pa.Table) -> FileStatus:
    path = folder / "f.parquet"
    pq.write_table(table, path)
    return FileStatus(str(path), path.stat().st_size)


@pytest.mark.parametrize("case", TABLES)
def test_batches_of_a_stream_are_small(case: str, tmp_path: Path) -> None:
    table = TABLES[case]()
    assert table.nbytes > 4 * 16 * MB or case in ("wide rows of few values", "lists")
    file, asked = written(tmp_path, table), pa.schema([*table.schema, ROW_INDEX])
    batches = list(ParquetFiles(Storage()).read_parquet_files([FileSplit(file)], asked))
    assert max(batch.nbytes for batch in batches) <= 17 * MB
    assert pa.Table.from_batches(batches).equals(
        table.append_column(ROW_INDEX, pa.array(np.arange(len(table)))).cast(asked)
    )


def test_who_asks_for_many_rows_gets_them_at_once(tmp_path: Path) -> None:
    table = TABLES["several columns"]()
    file = written(tmp_path, table)
    batches = list(ParquetFiles(Storage()).read_parquet_files([FileSplit(file)], table.schema, batch_size=1 << 20))
    assert [batch.num_rows for batch in batches] == [ROWS]


@pytest.mark.parametrize("way", FILTERING)
@pytest.mark.parametrize("least", [0, 10, 49])
def test_filtered_streams_are_small(way: str, least: int, tmp_path: Path) -> None:
    table = TABLES["several columns"]().append_column("n", pa.array(np.arange(ROWS) % 50))
    schema = schema_from_arrow(table.schema)
    predicate = normalize(bind(col("n") >= least, schema), schema)
    file, asked = written(tmp_path, table), pa.schema([*table.schema, ROW_INDEX])
    batches = list(FILTERING[way].parquet.read_parquet_files([FileSplit(file)], asked, predicate))
    assert max(batch.nbytes for batch in batches) <= 17 * MB
    found = pa.Table.from_batches(batches)
    matching = np.flatnonzero(np.arange(ROWS) % 50 >= least)
    kept = np.isin(found.column(ROW_INDEX.name).to_numpy(), matching)
    expected = table.append_column(ROW_INDEX, pa.array(np.arange(ROWS))).cast(asked).take(pa.array(matching))
    assert found.filter(pa.array(kept)).equals(expected)


def test_small_batches_are_asked_for_by_rows(tmp_path: Path) -> None:
    table = pa.table({"t": texts(20, 50), "n": range(ROWS)})
    batches = ParquetFiles(Storage()).read_parquet_files([FileSplit(written(tmp_path, table))], table.schema, None, 700)
    rows = [batch.num_rows for batch in batches]
    assert max(rows) == 700
    assert sum(rows) == ROWS
    assert BatchSize.of(700).bytes == BatchSize.of(None).bytes


STREAM = """
import sys
from lakeport import scan

assert sum(batch.num_rows for batch in scan(sys.argv[1]).to_batches()) == 4 * 150_000
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""


def test_a_stream_of_long_texts_takes_little_memory(tmp_path: Path) -> None:
    rows = pa.table({name: texts(100, 400, 150_000) for name in "abcd"})
    tables.create(tmp_path, rows)
    for _ in range(3):
        tables.append(tmp_path, rows)
    run = subprocess.run([sys.executable, "-c", STREAM, tmp_path], capture_output=True, text=True, timeout=100)
    assert int(run.stdout) < 450 << 10, run.stderr  # decoded, the table has 960 MB


def test_a_row_group_is_not_loaded_as_a_whole_if_it_is_large(tmp_path: Path) -> None:
    table = pa.table({name: np.random.default_rng(7).integers(0, 1 << 62, 5_000_000) for name in "ab"})
    pq.write_table(table, tmp_path / "f", row_group_size=len(table))
    read = ParquetFiles(Storage()).read_parquet_files(
        [FileSplit(FileStatus(str(tmp_path / "f"), 80 * MB))], table.schema
    )
    before = pa.total_allocated_bytes()
    first = next(read)
    assert pa.total_allocated_bytes() - before < 40 * MB
    assert pa.Table.from_batches([first, *read]).equals(table)
