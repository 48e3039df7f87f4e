"""Tables like TPC-H's lineitem, 16 columns wide, that the everyday jobs read and change: the same rows in every run.

Files and logs are written by hand, so that no library under test decides how they look. A table that is there is not
made again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.targets import source_of
from lakeport import tables

COLUMNS = 16
ROWS = 6_000_000
PARTS = 200_000
ROWS_OF_AN_ORDER = 4
MONTHS = 84
"""The values of the partition column."""

_DELTA_TYPES = {
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
    pa.date32(): "date",
}
_FIRST_DAY = (date(1992, 1, 1) - date(1970, 1, 1)).days
_INDEXED_COLUMNS = 32
"""Delta's writers keep statistics of so many."""


@dataclass(frozen=True)
class _File:
    """A data file of a table, with the columns' logical names."""

    path: str
    data: pa.Table
    partition: dict[str, str]


def line_table(folder: Path, rows: int = ROWS, files: int = 12, columns: int = COLUMNS) -> Path:
    """The rows in files of equal size, added by one commit. Columns beyond lineitem's are numbers."""
    table = folder / f"lines-{rows}-{files}{'' if columns == COLUMNS else f'-{columns}'}"
    adds = (_written(table, file) for file in _line_files(rows, files, columns))
    _write_log(table, _schema(_lines(0, 0, columns).schema), [adds])
    return table


def small_commits(folder: Path, rows: int = 1_000_000, commits: int = 400) -> Path:
    """Small files, each added by a commit of its own."""
    table = folder / f"commits-{rows}-{commits}"
    adds = ([_written(table, file)] for file in _line_files(rows, commits))
    _write_log(table, _schema(_lines(0, 0).schema), adds)
    return table


def deleted_rows(folder: Path, source: Path) -> Path:
    """The files of another table, of which deletion vectors delete 5 % of the rows."""
    table = with_properties(folder, source, "deleted", {"delta.enableDeletionVectors": "true"})
    if tables.history(str(table), limit=1)[0].operation != "DELETE":
        tables.delete(str(table), "l_partkey % 20 = 7")
    return table


def with_properties(folder: Path, source: Path, name: str, properties: Mapping[str, str]) -> Path:
    """The files of another table, under other properties."""
    table = folder / f"{source.name}-{name}"
    unfinished = folder / f"{table.name}-unfinished"
    if not table.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(source, unfinished, copy_function=os.link)  # only the log grows
        tables.set_properties(str(unfinished), properties)
        unfinished.rename(table)
    return table


def mapped_columns(folder: Path, rows: int = ROWS, files: int = 12) -> Path:
    """The rows in files whose columns have physical names."""
    table = folder / f"lines-{rows}-{files}-mapped"
    fields = _schema(_lines(0, 0).schema)
    physical = {field["name"]: f"col-{number:08x}" for number, field in enumerate(fields, 1)}
    for number, field in enumerate(fields, 1):
        field["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": physical[field["name"]],
        }
    adds = (_written(table, file, physical) for file in _line_files(rows, files))
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(fields))}
    _write_log(table, fields, [adds], properties=properties)
    return table


def partitioned(folder: Path, rows: int = ROWS) -> Path:
    """The rows with one column more, by which they are partitioned: a file for each of its values."""
    table = folder / f"lines-{rows}-partitioned"
    fields = [*_schema(_lines(0, 0).schema), _field("month", "integer")]
    files = (
        _File(f"month={month}/part-0.parquet", file.data, {"month": str(month)})
        for month, file in enumerate(_line_files(rows, MONTHS))
    )
    _write_log(table, fields, [(_written(table, file) for file in files)], partition_by=["month"])
    return table


def wide_table(folder: Path, columns: int, rows: int = 3) -> Path:
    """Very few rows in very many columns."""
    table = folder / f"columns-{columns}"
    data = pa.table({f"c{number}": pa.array(range(number, number + rows), pa.int64()) for number in range(columns)})
    _write_log(table, _schema(data.schema), [[_written(table, _File("part-0.parquet", data, {}))]])
    pq.write_table(data, source_of(table, "append"))
    return table


def with_sources(table: Path, rows: int = ROWS, columns: int = COLUMNS, *, by_month: bool = False) -> Path:
    """The table, with rows beside it to append (a third of its own) and to merge (a thirtieth; half of them known)."""
    known, new = np.arange(0, rows, 60), np.arange(rows, rows + rows // 3)
    for task, numbers in {"append": new, "merge": np.concatenate([known, new[: len(known)]])}.items():
        data = _numbered_lines(numbers, columns)
        if by_month:
            months = np.minimum(numbers // (rows // MONTHS), MONTHS - 1)
            data = data.append_column("month", pa.array(months, pa.int32()))
        pq.write_table(data, source_of(table, task))
    return table


def empty_table(folder: Path, rows: int) -> Path:
    """A table without rows, beside which are so many to append."""
    table, schema = folder / f"append-{rows}", _lines(0, 0).schema
    if not table.exists():
        with pq.ParquetWriter(source_of(table, "append"), schema) as writer:
            for file in _line_files(rows, -(-rows // 500_000)):
                writer.write_table(file.data)
    _write_log(table, _schema(schema), [[]])
    return table


def long_log(folder: Path, commits: int) -> Path:
    """A log of so many commits without a checkpoint, each of which adds a file. The files themselves don't exist."""
    table = folder / f"log-{commits}"
    adds = ([_long_log_add(number)] for number in range(commits))
    _write_log(table, [_field("id", "long")], adds)
    return table


def _long_log_add(number: int) -> dict[str, Any]:
    bounds = {"minValues": {"id": number * 1000}, "maxValues": {"id": number * 1000 + 999}, "nullCount": {"id": 0}}
    return _add(f"part-{number:06d}-8a1f2c3d.snappy.parquet", 20_000 + number, 1000, bounds, {})


# Rows


def _line_files(rows: int, files: int, columns: int = COLUMNS) -> Iterable[_File]:
    each = rows // files
    for number in range(files):
        yield _File(f"part-{number:05d}.parquet", _lines(number * each, each, columns), {})


def _lines(first: int, rows: int, columns: int = COLUMNS) -> pa.Table:
    return _numbered_lines(np.arange(first, first + rows), columns, seed=first + 1)


def _numbered_lines(numbers: np.ndarray[Any, Any], columns: int, seed: int = 0) -> pa.Table:
    """Rows by their numbers in the table: orders are in order, all else is random."""
    rows = len(numbers)
    random = np.random.default_rng(seed)
    shipped = _FIRST_DAY + random.integers(1, 2526, rows)
    returned = random.integers(0, 3, rows)
    quantity = random.integers(1, 51, rows).astype(float)
    values: dict[str, Any] = {
        "l_orderkey": numbers // ROWS_OF_AN_ORDER,
        "l_partkey": random.integers(0, PARTS, rows),
        "l_suppkey": random.integers(0, 10_000, rows),
        "l_linenumber": (numbers % ROWS_OF_AN_ORDER).astype("int32"),
        "l_quantity": quantity,
        "l_extendedprice": np.round(quantity * random.integers(90_000, 210_000, rows) / 100, 2),
        "l_discount": random.integers(0, 11, rows) / 100,
        "l_tax": random.integers(0, 9, rows) / 100,
        "l_returnflag": _chosen(["A", "N", "R"], returned),
        "l_linestatus": _chosen(["F", "O"], random.integers(0, 2, rows)),
        "l_shipdate": _days(shipped),
        "l_commitdate": _days(shipped + random.integers(-60, 60, rows)),
        "l_receiptdate": _days(shipped + random.integers(1, 31, rows)),
        "l_shipinstruct": _chosen(
            ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"], random.integers(0, 4, rows)
        ),
        "l_shipmode": _chosen(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"], random.integers(0, 7, rows)),
        "l_comment": _chosen(_comments(), random.integers(0, len(_comments()), rows)),
    }
    more = {f"n{number:03d}": random.integers(0, 1000 * number, rows) for number in range(COLUMNS, columns)}
    return pa.table(values | more)


def _chosen(values: Sequence[str], numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(values)).dictionary_decode()


def _days(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(numbers, pa.int32()).cast(pa.date32())


@cache
def _comments() -> list[str]:
    """So many that Parquet gives up their dictionary, as it does for lineitem's."""
    words = ["above", "after", "bold", "careful", "even", "express", "final", "ironic", "pending", "quick", "regular"]
    choices = np.random.default_rng(0).integers(0, len(words), (100_000, 5))
    return [" ".join(words[choice] for choice in row) for row in choices.tolist()]


# Files and logs


def _written(table: Path, file: _File, physical: dict[str, str] | None = None) -> dict[str, Any]:
    """Write a data file; return the action that adds it."""
    target = table / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    names = physical or {}
    data = file.data.rename_columns([names.get(name, name) for name in file.data.column_names])
    pq.write_table(data, target, compression="snappy")
    return _add(file.path, target.stat().st_size, data.num_rows, _bounds(data), file.partition)


def _bounds(data: pa.Table) -> dict[str, Any]:
    lowest, highest, nulls = {}, {}, {}
    for name in data.column_names[:_INDEXED_COLUMNS]:
        bounds = pc.min_max(data[name])
        lowest[name], highest[name], nulls[name] = bounds["min"].as_py(), bounds["max"].as_py(), data[name].null_count
    return {"minValues": lowest, "maxValues": highest, "nullCount": nulls}


def _add(path: str, size: int, rows: int, bounds: dict[str, Any], partition: dict[str, str]) -> dict[str, Any]:
    stats = json.dumps({"numRecords": rows, **bounds}, default=date.isoformat)
    return {
        "path": path,
        "partitionValues": partition,
        "size": size,
        "modificationTime": 1_760_000_000_000,
        "dataChange": True,
        "stats": stats,
    }


def _write_log(
    table: Path,
    fields: list[dict[str, Any]],
    commits: Iterable[Iterable[dict[str, Any]]],
    *,
    partition_by: Sequence[str] = (),
    properties: dict[str, str] | None = None,
) -> None:
    log, unfinished = table / "_delta_log", table / "_unfinished_log"
    if log.exists():
        return
    unfinished.mkdir(parents=True, exist_ok=True)
    reader, writer = (2, 5) if properties else (1, 2)
    protocol = {"minReaderVersion": reader, "minWriterVersion": writer}
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partition_by),
        "configuration": properties or {},
        "createdTime": 1_760_000_000_000,
    }
    head: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    for version, adds in enumerate(commits):
        info = {"commitInfo": {"timestamp": 1_760_000_000_000 + version, "operation": "WRITE"}}
        actions = [info, *(head if version == 0 else []), *({"add": add} for add in adds)]
        (unfinished / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    unfinished.rename(log)


def _schema(schema: pa.Schema) -> list[dict[str, Any]]:
    return [_field(field.name, _DELTA_TYPES[field.type]) for field in schema]


def _field(name: str, type: str) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {}}
