"""Parquet files of many writers and shapes: of the same rows, or of given ones."""

from __future__ import annotations

import os
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

ROWS = 3000
GROUP = 1000
"""Rows of a row group, where writers can be told."""

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("text", pa.string()),
        ("kind", pa.string()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(12, 2)),
        ("raw", pa.binary()),
        ("flag", pa.bool_()),
        ("nothing", pa.int64()),
        ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("items", pa.list_(pa.int64())),
    ]
)


@cache
def rows() -> pa.Table:
    def unless(i: int, divisor: int, value: Any) -> Any:
        return None if i % divisor == 1 else value

    return pa.Table.from_pylist(
        [
            {
                "id": i,
                "n": unless(i, 7, i % 100),
                "x": unless(i, 5, float("nan") if i % 50 == 3 else i / 3),
                "text": unless(i, 11, f"text {i} ü"),
                "kind": unless(i, 13, f"kind {i % 4}"),
                "day": unless(i, 3, date(2020, 1, 1) + timedelta(i % 500)),
                "moment": datetime(2020, 1, 1) + timedelta(seconds=i),
                "price": unless(i, 17, Decimal(i) / 4),
                "raw": unless(i, 19, bytes([i % 256]) * (i % 9)),
                "flag": unless(i, 2, i % 3 == 0),
                "nothing": None,
                "s": unless(i, 23, {"a": i, "b": f"b{i % 3}"}),
                "items": unless(i, 29, list(range(i % 5))),
            }
            for i in range(ROWS)
        ],
        SCHEMA,
    )


def _pyarrow(path: Path, given: pa.Table | None = None, **options: Any) -> None:
    pq.write_table(rows() if given is None else given, path, **({"row_group_size": GROUP} | options))


def _duckdb(path: Path, given: pa.Table | None = None, options: str = "") -> None:
    given = rows() if given is None else given  # DuckDB finds it by its name
    duckdb.sql(f"COPY (SELECT * FROM given) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048 {options})")


def _polars(path: Path, given: pa.Table | None = None, **options: Any) -> None:
    pl.from_arrow(rows() if given is None else given).write_parquet(path, row_group_size=GROUP, **options)  # type: ignore[union-attr]


def _deltalake(path: Path, given: pa.Table | None = None) -> None:
    folder = path.with_suffix(".table")
    write_deltalake(folder, rows() if given is None else given)
    (file,) = folder.glob("*.parquet")
    os.rename(file, path)


class Writer(Protocol):
    def __call__(self, path: Path, given: pa.Table | None = None) -> None: ...


WRITERS: dict[str, Writer] = {
    "pyarrow": _pyarrow,
    "pyarrow, version 2 pages": partial(_pyarrow, data_page_version="2.0", compression="zstd"),
    "pyarrow, page index": partial(_pyarrow, write_page_index=True, data_page_size=512, write_batch_size=50),
    "pyarrow, bloom filters": partial(_pyarrow, bloom_filter_options={"id": {"ndv": ROWS}, "text": True}),
    "pyarrow, gzip, no dictionary": partial(_pyarrow, compression="gzip", use_dictionary=False),
    "pyarrow, delta encodings": partial(
        _pyarrow,
        use_dictionary=False,
        column_encoding={"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "kind": "DELTA_LENGTH_BYTE_ARRAY"},
    ),
    "pyarrow, split bytes": partial(_pyarrow, use_dictionary=False, column_encoding={"x": "BYTE_STREAM_SPLIT"}),
    "pyarrow, uncompressed, one group": partial(_pyarrow, compression="none", row_group_size=ROWS),
    "pyarrow, sorted": partial(_pyarrow, sorting_columns=[pq.SortingColumn(0)]),
    "pyarrow, INT96": partial(_pyarrow, use_deprecated_int96_timestamps=True),
    "pyarrow, format 1.0": partial(_pyarrow, version="1.0", write_statistics=False),
    "pyarrow, checksums": partial(_pyarrow, write_page_checksum=True, store_schema=False),
    "duckdb": _duckdb,
    "duckdb, version 2": partial(_duckdb, options=", PARQUET_VERSION v2, CODEC zstd"),
    "polars": _polars,
    "polars, no statistics": partial(_polars, statistics=False, compression="lz4"),
    "deltalake": _deltalake,
}
