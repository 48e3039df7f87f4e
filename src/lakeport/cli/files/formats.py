"""File formats, and how `export` writes them: batch by batch, in bounded memory.

A format's module is imported when it is written: `lakeport sql` prints most results.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import PurePath
from typing import BinaryIO, Protocol

import pyarrow as pa

from lakeport.cli.rendering import ENCODER, json_rows, plain_batch, plain_schema, text_column

_ROW_GROUP_ROWS = 1 << 20
_ROW_GROUP_BYTES = 64 << 20
"""A Parquet row group is complete at this many rows, or this many bytes before compression."""

_ROWS_AT_ONCE = 8192
"""How many rows are converted to Python objects at once."""


class Format(StrEnum):
    parquet = "parquet"
    csv = "csv"
    jsonl = "jsonl"
    arrow = "arrow"


_SUFFIXES = {f".{name}": name for name in Format}
_SUFFIXES |= {".pq": Format.parquet, ".json": Format.jsonl, ".ndjson": Format.jsonl}
_SUFFIXES |= {".feather": Format.arrow, ".ipc": Format.arrow}


def format_of(path: str) -> Format:
    """The format for the extension of a file."""
    if not is_file_name(path):
        raise ValueError(
            f"cannot tell the format of {path!r}: end it with one of {' '.join(_SUFFIXES)}, or pass --format"
        )
    return _SUFFIXES[PurePath(path).suffix.lower()]


def is_file_name(path: str) -> bool:
    """Whether the extension stands for a format."""
    return PurePath(path).suffix.lower() in _SUFFIXES


class Writer(Protocol):
    """Writes rows to a file, which stays open. The content is complete only after `close`."""

    def write(self, batch: pa.RecordBatch) -> None: ...
    def close(self) -> None: ...


def open_writer(kind: Format, file: BinaryIO, schema: pa.Schema) -> Writer:
    return _WRITERS[kind](file, schema)


class _Parquet:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        from pyarrow.parquet import ParquetWriter

        self._schema = plain_schema(schema)
        self._writer = ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(plain_batch(batch, self._schema))
        self._rows += batch.num_rows
        self._bytes += self._waiting[-1].nbytes
        if self._rows >= _ROW_GROUP_ROWS or self._bytes >= _ROW_GROUP_BYTES:
            self._write_row_group()

    def _write_row_group(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=_ROW_GROUP_ROWS)
        self._waiting, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        if self._waiting:
            self._write_row_group()
        self._writer.close()


class _Arrow:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._schema = plain_schema(schema)
        self._writer = pa.ipc.new_file(file, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(plain_batch(batch, self._schema))

    def close(self) -> None:
        self._writer.close()


class _Csv:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        from pyarrow.csv import CSVWriter

        empty = self._text(pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema))
        self._writer = CSVWriter(file, empty.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            self._writer.write_batch(self._text(batch.slice(start, _ROWS_AT_ONCE)))

    def close(self) -> None:
        self._writer.close()

    @staticmethod
    def _text(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [text_column(array, field) for array, field in zip(batch.columns, batch.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class _JsonLines:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            self._file.write(ENCODER.encode_lines(json_rows(batch.slice(start, _ROWS_AT_ONCE))))

    def close(self) -> None:
        pass


_WRITERS: dict[Format, Callable[[BinaryIO, pa.Schema], Writer]] = {
    Format.parquet: _Parquet,
    Format.arrow: _Arrow,
    Format.csv: _Csv,
    Format.jsonl: _JsonLines,
}
