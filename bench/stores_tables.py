"""Tables for the benchmarks on object stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.tables import large_checkpoint

ROWS, FILES, COMMITS, PARTITIONS, PARTS = 6_000_000, 12, 2_000, 200, 10


def _random() -> np.random.Generator:
    return np.random.default_rng(18)


@cache
def _lines() -> list[pa.Table]:
    random = _random()
    return [line_items(random, number * ROWS // FILES, ROWS // FILES) for number in range(FILES)]


def _line(table: Path) -> None:
    write_table(table, _lines())


def _one(table: Path) -> None:
    write_table(table, [pa.concat_tables(_lines())])


def _small(table: Path) -> None:
    random = _random()
    write_table(table, [_numbers(random, n, 2500) for n in range(400)], bounds=False)


def _commits(table: Path) -> None:
    random = _random()
    write_table(table, [_numbers(random, n, 1) for n in range(COMMITS)])


def _partitions(table: Path) -> None:
    parts = {f"p{n:03d}": _lines()[0].slice(n * 2500, 2500) for n in range(PARTITIONS)}
    write_table(table, list(parts.values()), partitions=list(parts))


def line_items(random: np.random.Generator, first: int, rows: int) -> pa.Table:
    """Rows like those of TPC-H's `lineitem`, in the order of their first column."""

    def chosen(*words: str) -> pa.Array:
        return pa.array(words).take(pa.array(random.integers(0, len(words), rows)))

    days = random.integers(8000, 10_500, rows).astype("int32")
    comments = pa.array([f"{a} the {b} requests" for a in _WORDS for b in _WORDS])
    return pa.table(
        {
            "l_orderkey": np.arange(first, first + rows),
            "l_partkey": random.integers(0, 200_000, rows),
            "l_suppkey": random.integers(0, 10_000, rows),
            "l_linenumber": random.integers(1, 8, rows).astype("int32"),
            "l_quantity": random.integers(1, 51, rows).astype(float),
            "l_extendedprice": random.integers(90_000, 10_500_000, rows) / 100,
            "l_discount": random.integers(0, 11, rows) / 100,
            "l_tax": random.integers(0, 9, rows) / 100,
            "l_returnflag": chosen("A", "N", "R"),
            "l_linestatus": chosen("F", "O"),
            "l_shipdate": pa.array(days).cast(pa.date32()),
            "l_commitdate": pa.array(days + random.integers(-60, 60, rows).astype("int32")).cast(pa.date32()),
            "l_receiptdate": pa.array(days + random.integers(1, 30, rows).astype("int32")).cast(pa.date32()),
            "l_shipinstruct": chosen("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"),
            "l_shipmode": chosen("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
            "l_comment": pc.binary_join_element_wise(
                comments.take(pa.array(random.integers(0, len(comments), rows))),
                pa.array(random.integers(0, 1_000_000, rows)).cast(pa.string()),
                " ",
            ),
        }
    )


_WORDS = [
    f"{how}ly {what}"
    for how in ("furious", "careful", "quick", "sly", "blithe")
    for what in ["bold", "even", "final", "ironic", "pending", "regular", "silent", "special", "unusual", "express"]
]


def _numbers(random: np.random.Generator, number: int, rows: int) -> pa.Table:
    return pa.table({"id": np.arange(number * rows, (number + 1) * rows), "x": random.random(rows)})


def write_table(table: Path, files: list[pa.Table], partitions: Sequence[str] = (), bounds: bool = True) -> None:
    """A commit for each file, or one for all partitions."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    actions = _first(files[0].schema, bool(partitions))
    for number, rows in enumerate(files):
        path = f"p={partitions[number]}/{number}.parquet" if partitions else f"{number}.parquet"
        (table / path).parent.mkdir(exist_ok=True)
        pq.write_table(rows, table / path)
        values = {"p": partitions[number]} if partitions else {}
        actions.append({"add": _add(table, path, rows if bounds else None) | {"partitionValues": values}})
        if not partitions or number + 1 == len(files):
            version = 0 if partitions else number
            (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
            actions = []


def _first(schema: pa.Schema, partitioned: bool) -> list[dict[str, Any]]:
    types = {name: _TYPES[str(kind)] for name, kind in zip(schema.names, schema.types, strict=True)}
    columns = types | ({"p": "string"} if partitioned else {})
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    metadata = {"id": "bench", "format": {"provider": "parquet", "options": {}}, "configuration": {}, "createdTime": 0}
    metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields})}
    metadata |= {"partitionColumns": ["p"] if partitioned else []}
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


_TYPES = {"int64": "long", "int32": "integer", "double": "double", "string": "string", "date32[day]": "date"}


def _add(table: Path, path: str, rows: pa.Table | None) -> dict[str, Any]:
    """The add of a file; with the bounds of its first column if given its rows."""
    size = (table / path).stat().st_size
    add = {"path": path, "size": size, "modificationTime": 0, "dataChange": True}
    if rows is not None:
        first = rows.column(0)
        bounds = {"minValues": first[0].as_py(), "maxValues": first[-1].as_py(), "nullCount": 0}
        stats = {what: {rows.column_names[0]: bound} for what, bound in bounds.items()}
        add["stats"] = json.dumps({"numRecords": rows.num_rows, **stats})
    return add


def _parts(table: Path, files: int = 10_000) -> None:
    """A checkpoint of as many files, none of which exists, in parts."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    whole = pq.read_table(large_checkpoint(table.parent, files) / "_delta_log" / f"{10:020d}.checkpoint.parquet")
    for part in range(PARTS):
        rows = whole.slice(part * len(whole) // PARTS, (part + 1) * len(whole) // PARTS - part * len(whole) // PARTS)
        pq.write_table(rows, log / f"{10:020d}.checkpoint.{part + 1:010d}.{PARTS:010d}.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": files + 2, "parts": PARTS}))
    (log / f"{10:020d}.json").write_text(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n")


TABLES: dict[str, Callable[[Path], None]] = {
    "line": _line,
    "one": _one,
    "small": _small,
    "commits": _commits,
    "partitions": _partitions,
    "parts": _parts,
}
"""Commits of one file each, except for the partitions and the parts."""
