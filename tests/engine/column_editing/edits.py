"""Files with new values in some columns, and their rows in every reader."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeport.engine import default_engine
from lakeport.kernel.engine import FileSplit, FileStatus, ParquetEditingHandler
from tests.engine.column_editing.writers import SCHEMA, rows


def status_of(path: Path) -> FileStatus:
    return FileStatus(str(path), path.stat().st_size)


def edit(path: Path, names: Sequence[str], wanted: pa.Table, groups: Collection[int]) -> Path | None:
    """A file with the values of `wanted` in some columns of some row groups; None if it is not edited."""
    parquet, target = default_engine().parquet, path.with_name(f"{path.stem}-{'-'.join(names)}.parquet")
    assert isinstance(parquet, ParquetEditingHandler)
    columns = SCHEMA.empty_table().select(names).schema
    editor = parquet.open_editor(status_of(path), str(target), columns, columns)
    if editor is None:
        assert not target.exists()
        return None
    start = 0
    for group, count in enumerate(editor.row_groups):
        replaced = names if group in groups else [name for name in names if name in editor.renewed]
        editor.replace(group, [wanted.select([name]).slice(start, count) for name in replaced])
        start += count
    assert editor.close().size == target.stat().st_size
    return target


def with_new_values(path: Path, names: Sequence[str], groups: Collection[int]) -> pa.Table:
    """The rows of a file, with other values in some columns of some row groups: those of the last rows first."""
    metadata, start, parts = pq.read_metadata(path), 0, []
    for group in range(metadata.num_row_groups):
        part = rows().slice(start, metadata.row_group(group).num_rows)
        start += len(part)
        for name in names if group in groups else ():
            values = part[name].take(pa.array(np.arange(len(part))[::-1]))
            part = part.set_column(part.schema.get_field_index(name), part.schema.field(name), values)
        parts.append(part)
    return pa.concat_tables(parts)


def read_by_all(path: Path) -> Iterator[tuple[str, pa.Table]]:
    yield "pyarrow", pq.read_table(path, coerce_int96_timestamp_unit="us")
    yield "duckdb", duckdb.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()
    yield "polars", pl.read_parquet(path).to_arrow()
    batches = default_engine().parquet.read_parquet_files([FileSplit(status_of(path))], SCHEMA)
    yield "lakeport", pa.Table.from_batches(batches, SCHEMA)


def same(found: pa.Table, wanted: pa.Table) -> bool:
    """Whether rows are the same, NaN included."""
    return _without_nan(found.select(wanted.column_names).cast(wanted.schema)).equals(_without_nan(wanted))


def _without_nan(table: pa.Table) -> pa.Table:
    bits = [chunk.view(pa.int64()) for chunk in pc.fill_null(table["x"], -1.0).chunks]
    return table.set_column(table.schema.get_field_index("x"), "x", pa.chunked_array(bits, pa.int64()))
