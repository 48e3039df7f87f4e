"""User data as a stream of Arrow batches: anything that exports Arrow, or plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa

from lakeport.errors import InvalidDataError
from lakeport.kernel.schema import StructType, arrow_schema


def to_reader(data: Any, table: StructType | None = None) -> pa.RecordBatchReader:
    """Read rows from a table, a batch, a reader, an iterable of batches, a dict of columns, a list of dicts, a pandas
    or Polars frame, a DuckDB relation, a `lakeport.scan`, or anything else that exports an Arrow stream.

    An empty list gets the columns of `table`, if known. A named pandas index becomes a column. Raises `ValueError` for
    anything else, `InvalidDataError` for values that do not form columns."""
    match data:
        case pa.RecordBatchReader():
            return data
        case pa.RecordBatch():
            return pa.RecordBatchReader.from_batches(data.schema, [data])
        case Mapping():
            return _from_columns(data)
    if type(data).__module__.partition(".")[0] == "pandas":
        return _from_pandas(data)
    if hasattr(data, "to_reader"):  # bypasses the C interface, which would change the error
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _from_arrow(data)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_items(iter(data), table)
    raise ValueError(
        f"{type(data).__name__} is not data: pass an Arrow table, batches or a reader, a pandas or Polars frame, a "
        "DuckDB relation, a frame of lakeport.scan, a dict of columns or a list of dicts"
    )


def _from_arrow(data: Any) -> pa.RecordBatchReader:
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        batch = pa.record_batch(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _one_column(data) from error
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _one_column(data: Any) -> ValueError:
    return ValueError(f"{type(data).__name__} is one column, not a table: give it a name, as {{'id': column}}")


def _from_pandas(data: Any) -> pa.RecordBatchReader:
    if not hasattr(data, "columns"):
        raise _one_column(data)
    if named := [name for name in data.index.names if name is not None]:
        if twice := [name for name in named if name in data.columns]:
            raise InvalidDataError(
                f"the frame has {twice[0]!r} as a column and as its index: rename one of them, or leave the index out "
                "with reset_index(drop=True)",
                column=str(twice[0]),
            )
        data = data.reset_index(level=named)
    try:
        return pa.Table.from_pandas(data, preserve_index=False).to_reader()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidDataError(f"the frame cannot be read: {_describe_error(error)}; {_ONE_TYPE}") from error


def _from_items(items: Iterator[Any], table: StructType | None) -> pa.RecordBatchReader:
    """Stream batches one by one; collect dict rows all at once."""
    first = next(items, None)
    if isinstance(first, pa.RecordBatch | pa.Table):
        batches = chain.from_iterable(map(_batches, chain([first], items)))
        return pa.RecordBatchReader.from_batches(first.schema, batches)
    if isinstance(first, Mapping):
        return _from_rows(list(chain([first], items)))
    if first is not None:
        raise _mixed(first)
    if table is None:
        raise ValueError("the data is empty and has no columns; pass an empty Arrow table instead")
    return pa.RecordBatchReader.from_batches(arrow_schema(table), [])


def _from_rows(rows: list[Any]) -> pa.RecordBatchReader:
    """Rows that may have different keys."""
    for other in (row for row in rows if not isinstance(row, Mapping)):
        raise _mixed(other)
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:  # an Arrow table without columns has no rows
        batch = pa.RecordBatch.from_struct_array(pa.nulls(len(rows), pa.struct([])))
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    return _from_columns({name: [row.get(name) for row in rows] for name in names})


def _from_columns(columns: Mapping[Any, Any]) -> pa.RecordBatchReader:
    arrays = {name: _column(name, values) for name, values in columns.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise InvalidDataError(f"the columns do not have the same number of rows: {lengths}")
    return pa.table(arrays).to_reader()


def _column(name: Any, values: Any) -> pa.Array | pa.ChunkedArray:
    if not isinstance(name, str):
        raise InvalidDataError(f"the name of a column must be text, not {name!r}")
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidDataError(
            f"the column {name!r} is a single value, {values!r:.80}: pass a list with a value per row", column=name
        )
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidDataError(
            f"the column {name!r} cannot be read: {_describe_error(error)}; {_ONE_TYPE}", column=name
        ) from error


_ONE_TYPE = "pass values of one type, integers of at most 64 bits, or an Arrow array of the intended type"


def _describe_error(error: Exception) -> str:
    return "; ".join(str(part) for part in error.args) or str(error)


def _batches(item: Any) -> Iterable[pa.RecordBatch]:
    if isinstance(item, pa.RecordBatch):
        return [item]
    if isinstance(item, pa.Table):
        return list(item.to_batches())
    raise _mixed(item)


def _mixed(item: Any) -> ValueError:
    return ValueError(f"an iterable of data must have only Arrow batches or only dicts, not {type(item).__name__}")
