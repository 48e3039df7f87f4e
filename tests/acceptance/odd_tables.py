"""Tables in shapes that no writer leaves on purpose but readers meet: each says in one line what is odd about it.

They are built anew in every process, and join the real tables under the names ``odd--…``."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.engine import default_engine
from lakeport.testing.builder import Action, TableBuilder, mapped, protocol, remove, struct

SCHEMA = struct(id="long", city="string")
ARROW = pa.schema([("id", pa.int64()), ("city", pa.string())])
VECTORS = protocol(features=["deletionVectors"])
V2 = protocol(features=["v2Checkpoint"])

Rows = Sequence[tuple[int | None, str | None]]
Build = Callable[[TableBuilder], Rows]


@dataclass(frozen=True)
class Odd:
    what: str
    """What is odd about the table."""
    build: Build
    """Writes the table, and returns its rows."""
    partitioned: bool = False
    protocol: Action | None = None


TABLES: dict[str, Odd] = {}


def odd(what: str, **more: Any) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        TABLES[build.__name__.replace("_", "-")] = Odd(what, build, **more)
        return build

    return register


def rows_of(*ids: int, city: str | None = None) -> list[tuple[int | None, str | None]]:
    return [(number, city or f"city {number}") for number in ids]


def file_of(table: TableBuilder, *ids: int, **more: Any) -> Action:
    return table.add({"id": list(ids), "city": [f"city {number}" for number in ids]}, **more)


def drop(table: TableBuilder, *names: str) -> None:
    for name in names:
        Path(table.log_file(name)).unlink()


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


# Logs that lack something


@odd("the commits before the checkpoint are gone")
def truncated_log(table: TableBuilder) -> Rows:
    for number in range(4):
        table.create(file_of(table, number)) if number == 0 else table.commit(file_of(table, number))
    table.checkpoint(2)
    drop(table, *map(commit_name, range(3)))
    return rows_of(0, 1, 2, 3)


@odd("one of the two parts of the newest checkpoint is missing, and the hint points to it")
def missing_checkpoint_part(table: TableBuilder) -> Rows:
    table.create(file_of(table, 0)).checkpoint()
    table.commit(file_of(table, 1)).commit(file_of(table, 2))
    drop(table, table.checkpoint(form="parts")[1])
    return rows_of(0, 1, 2)


@odd("the hint names a checkpoint that is not there")
def hint_to_nowhere(table: TableBuilder) -> Rows:
    table.create(file_of(table, 0)).commit(file_of(table, 1)).hint({"version": 7, "size": 9})
    return rows_of(0, 1)


@odd("the hint is an older checkpoint than the newest, whose commits are gone")
def stale_hint(table: TableBuilder) -> Rows:
    table.create(file_of(table, 0)).checkpoint()
    table.commit(file_of(table, 1)).commit(file_of(table, 2)).checkpoint(hint=False)
    drop(table, commit_name(0), commit_name(1))
    return rows_of(0, 1, 2)


@odd("the hint is not JSON")
def broken_hint(table: TableBuilder) -> Rows:
    table.create(file_of(table, 0)).commit(file_of(table, 1)).checkpoint()
    table.commit(file_of(table, 2)).hint("{not json")
    return rows_of(0, 1, 2)


@odd("the checkpoint is complete in two forms, with different names", protocol=V2)
def two_checkpoints_of_a_version(table: TableBuilder) -> Rows:
    table.create(file_of(table, 0)).commit(file_of(table, 1)).checkpoint(form="v2-json-sidecars")
    table.checkpoint(form="v2-parquet")
    table.commit(file_of(table, 2))
    return rows_of(0, 1, 2)


@odd("the log has files that belong to no version, and empty checksums")
def strange_files(table: TableBuilder) -> Rows:
    table.create(file_of(table, 0)).commit(file_of(table, 1))
    names = ["notes.txt", ".tmp.json", "_commits/x.json", "00000000000000000001.crc", "1.json", "checkpoint.parquet"]
    for name in names:
        table.write(table.log_file(name), b"")
    return rows_of(0, 1)


@odd("one commit is empty, one has only an unknown action, one has blank lines")
def commits_of_nothing(table: TableBuilder) -> Rows:
    table.create(file_of(table, 0)).commit().commit({"unheardOf": {"a": [1]}}).commit(file_of(table, 1))
    path = Path(table.log_file(commit_name(3)))
    path.write_text("\n" + path.read_text() + "\n\n")
    return rows_of(0, 1)


# Several actions on one file


@odd("a compaction has two actions of one file, oldest first")
def compaction_with_history(table: TableBuilder) -> Rows:
    return _compacted(table, (1, 2, 3))


@odd("a compaction has two actions of one file, newest first")
def compaction_backwards(table: TableBuilder) -> Rows:
    return _compacted(table, (3, 2, 1))


def _compacted(table: TableBuilder, versions: Sequence[int]) -> Rows:
    first, second = file_of(table, 0, 1), file_of(table, 2)
    table.create().commit(first).commit(remove(first)).commit(second)
    lines = [Path(table.log_file(commit_name(version))).read_text() for version in versions]
    table.write(table.log_file(f"{1:020d}.{3:020d}.compacted.json"), "".join(lines))
    return rows_of(2)


@odd("a file is removed and added again without a change")
def added_again(table: TableBuilder) -> Rows:
    add = file_of(table, 0, 1)
    table.create(add).commit(remove(add)).commit(add).commit(add)
    return rows_of(0, 1)


@odd("one commit removes a file and adds it with a deletion vector inside the log", protocol=VECTORS)
def inline_vector(table: TableBuilder) -> Rows:
    add = file_of(table, 0, 1, 2, 3)
    table.create(add).commit(*table.delete(add, [1, 2], kind="i"))
    return rows_of(0, 3)


@odd("the deletion vector is in the middle of a file that is named by its absolute path", protocol=VECTORS)
def vector_by_absolute_path(table: TableBuilder) -> Rows:
    add = file_of(table, 0, 1, 2, 3)
    vector = table.deletion_vector([0], "p", offset=11)
    table.create(add).commit(remove(add), {"add": add["add"] | {"deletionVector": vector}})
    return rows_of(1, 2, 3)


@odd("a deletion vector has every row of its file", protocol=VECTORS)
def all_rows_deleted(table: TableBuilder) -> Rows:
    add = file_of(table, 0, 1)
    table.create(add, file_of(table, 2)).commit(*table.delete(add, [0, 1]))
    return rows_of(2)


# Features that are listed for writers only


def _only_for_writers(*features: str) -> Action:
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": versions | {"readerFeatures": [], "writerFeatures": list(features)}}


@odd("column mapping by name is a feature for writers only", protocol=_only_for_writers("columnMapping"))
def names_mapped_for_writers(table: TableBuilder) -> Rows:
    return _mapped(table, "name")


@odd("column mapping by id is a feature for writers only", protocol=_only_for_writers("columnMapping"))
def ids_mapped_for_writers(table: TableBuilder) -> Rows:
    return _mapped(table, "id")


def _mapped(table: TableBuilder, mode: str) -> Rows:
    table.schema = mapped(table.schema)
    table.properties |= {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"}
    files = [table.add({"col-1": [number], "col-2": [f"city {number}"]}) for number in (0, 1)]
    table.create(files[0]).commit(files[1])
    return rows_of(0, 1)


@odd("deletion vectors are a feature for writers only", protocol=_only_for_writers("deletionVectors"))
def vectors_for_writers(table: TableBuilder) -> Rows:
    add = file_of(table, 0, 1, 2)
    table.create(add).commit(*table.delete(add, [1]))
    return rows_of(0, 2)


# Adds and their files


@odd("a file is named by its absolute URL")
def absolute_path(table: TableBuilder) -> Rows:
    name = "elsewhere.parquet"
    table.create(file_of(table, 0, name=name, path=Path(table.root, name).as_uri()))
    return rows_of(0)


@odd("statistics are missing, empty, broken, or say nothing of the column")
def odd_statistics(table: TableBuilder) -> Rows:
    texts = [None, "{}", '{"numRecords":', '{"numRecords":1,"minValues":{},"maxValues":null}']
    table.create(*(file_of(table, number, stats=text) for number, text in enumerate(texts)))
    return rows_of(0, 1, 2, 3)


@odd("one data file lacks a column, another has them in another order")
def other_columns_in_files(table: TableBuilder) -> Rows:
    swapped = pa.table({"city": ["city 1"], "id": pa.array([1], pa.int64())})
    table.create(table.add({"id": [0]}), table.add(swapped))
    return [(0, None), *rows_of(1)]


@odd("a data file has a column that the table does not have")
def unknown_column_in_files(table: TableBuilder) -> Rows:
    table.create(table.add(pa.table({"id": pa.array([1], pa.int64()), "city": ["city 1"], "more": [1.5]})))
    return rows_of(1)


@odd("a data file has no rows")
def file_without_rows(table: TableBuilder) -> Rows:
    table.create(file_of(table), file_of(table, 0))
    return rows_of(0)


@odd("partition values are null, empty text, and not in the add at all", partitioned=True)
def missing_partition_values(table: TableBuilder) -> Rows:
    values: list[dict[str, str | None]] = [{"city": None}, {"city": ""}, {}, {"city": "a b/c=%20"}]
    table.create(*(table.add({"id": [number]}, value) for number, value in enumerate(values)))
    return [(0, None), (1, None), (2, None), (3, "a b/c=%20")]


@odd("the data files have the partition column, with other values than the log", partitioned=True)
def partition_column_in_files(table: TableBuilder) -> Rows:
    rows = pa.table({"id": pa.array([0, 1], pa.int64()), "city": ["wrong", "wrong"]})
    table.create(table.add(rows, {"city": "Oslo"}))
    return rows_of(0, 1, city="Oslo")


# As entries of a manifest


def entries() -> Iterator[dict[str, Any]]:
    """Builds all of them in a folder that goes with the process."""
    folder = Path(tempfile.mkdtemp(prefix="odd-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, made in TABLES.items():
        path = folder / name
        partition_by = ["city"] if made.partitioned else []
        table = TableBuilder(default_engine(), str(path), SCHEMA, partition_by, protocol=made.protocol or protocol())
        found = made.build(table)
        expected = folder / f"{name}.parquet"
        rows = [dict(zip(ARROW.names, row, strict=True)) for row in found]
        pq.write_table(pa.Table.from_pylist(rows, ARROW), expected)
        yield {
            "name": f"odd--{name}",
            "path": str(path),
            "tags": [f"odd:{name}"],
            "types": ["long", "string"],
            "protocol": {"readerFeatures": [], "writerFeatures": []} | table.protocol["protocol"],
            "configuration": table.properties,
            "partition_columns": partition_by,
            "expected": {"kind": "rows", "rows": len(found), "parquet": str(expected)},
            **_described(path, table),
        }


def _described(path: Path, table: TableBuilder) -> dict[str, Any]:
    names = [file.name for file in (path / "_delta_log").iterdir()]
    commits = sorted(int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name))
    live = table.live(table.version)
    return {
        "versions": {"first": commits[0], "last": commits[-1], "n_commits": len(commits)},
        "log": {
            "checkpoints": [name for name in names if ".checkpoint." in name],
            "last_checkpoint": "_last_checkpoint" in names,
            "compacted": [name for name in names if ".compacted." in name],
            "crc": sum(name.endswith(".crc") for name in names),
        },
        "state": {
            "version": table.version,
            "active_files": sum("add" in action for action in live),
            "txn": {},
            "domain_metadata": {},
        },
    }
