"""Data that people give, as a stream of Arrow batches: anything that speaks Arrow, or plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa


def to_reader(data: Any) -> pa.RecordBatchReader:
    """The rows of a table, a batch, a reader, an iterable of batches, a dict of columns or a list of dicts; of a pandas
    or Polars frame, of a DuckDB relation, and of whatever else exports an Arrow stream.

    Raises `ValueError` for anything else."""
    match data:
        case pa.RecordBatchReader():
            return data
        case pa.Table():
            return data.to_reader()
        case pa.RecordBatch():
            return pa.RecordBatchReader.from_batches(data.schema, [data])
        case Mapping():
            return pa.table(dict(data)).to_reader()
    if type(data).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_items(iter(data))
    raise ValueError(
        f"{type(data).__name__} is not data: give an Arrow table, batches or a reader, a pandas or Polars frame, a "
        "DuckDB relation, a dict of columns or a list of dicts"
    )


def _from_items(items: Iterator[Any]) -> pa.RecordBatchReader:
    """Batches one by one, so that a stream stays a stream; rows as dicts all at once."""
    first = next(items, None)
    if isinstance(first, pa.RecordBatch | pa.Table):
        batches = chain.from_iterable(map(_batches, chain([first], items)))
        return pa.RecordBatchReader.from_batches(first.schema, batches)
    if isinstance(first, Mapping):
        return _from_rows(list(chain([first], items)))
    if first is None:
        raise ValueError("there is no data: not even its columns are known; give an empty Arrow table instead")
    raise _mixed(first)


def _from_rows(rows: list[Any]) -> pa.RecordBatchReader:
    """Rows that need not all have the same keys."""
    for other in (row for row in rows if not isinstance(row, Mapping)):
        raise _mixed(other)
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names}).to_reader()


def _batches(item: Any) -> Iterable[pa.RecordBatch]:
    if isinstance(item, pa.RecordBatch):
        return [item]
    if isinstance(item, pa.Table):
        return list(item.to_batches())
    raise _mixed(item)


def _mixed(item: Any) -> ValueError:
    return ValueError(f"an iterable of data has Arrow batches or dicts, all of one kind, not {type(item).__name__}")
