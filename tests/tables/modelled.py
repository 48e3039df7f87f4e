"""A table beside a plain list of dicts: what is done to the one is done to the other, and they are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import lakeport
from lakeport import tables
from lakeport.engine.storage.storage import Storage
from lakeport.errors import StorageError
from lakeport.kernel.engine import OutputFile
from lakeport.kernel.expressions import Expression
from lakeport.tables import Result
from lakeport.testing.counting import CountingStorage
from tests.properties import FEED, MAPPED, TRACKING, VECTORS
from tests.rows import counted

Row = dict[str, Any]

BY_ID = {"delta.columnMapping.mode": "id"}

KINDS: dict[str, Mapping[str, str]] = {
    "plain": {},
    "vectors": VECTORS,
    "plain, feed, tracking": FEED | TRACKING,
    "vectors, feed, tracking": VECTORS | FEED | TRACKING,
    "plain, feed, by id": FEED | BY_ID,
    "vectors, feed, by name": VECTORS | FEED | MAPPED,
    "vectors, tracking, by id": VECTORS | TRACKING | BY_ID,
}

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("part", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("text", pa.string()),
        pa.field("s", pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())])),
    ]
)


def some_rows(start: int, end: int) -> list[Row]:
    """Rows with nulls in every column but the id."""
    return [
        {
            "id": i,
            "part": None if i % 11 == 5 else f"p {i % 3}",
            "n": None if i % 7 == 2 else i % 10,
            "text": None if i % 5 == 1 else f"text {i}",
            "s": None if i % 13 == 4 else {"a": i * 10, "b": f"b{i % 4}"},
        }
        for i in range(start, end)
    ]


def as_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def logged(path: str, version: int, kind: str) -> list[dict[str, Any]]:
    """The actions of a kind in a commit."""
    lines = (Path(path) / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [action[kind] for action in map(json.loads, lines) if kind in action]


@dataclass
class ModelledTable:
    """`rows` is what the table should have."""

    path: str
    properties: Mapping[str, str]
    rows: list[Row] = field(default_factory=list)
    row_ids: dict[int, int] = field(default_factory=dict)

    @classmethod
    def create(
        cls, folder: Path, properties: Mapping[str, str], partition_by: Sequence[str] = ("part",), files: int = 3
    ) -> ModelledTable:
        """A table of 60 rows, written by several commits."""
        table = cls(str(folder / "table"), properties)
        tables.create(table.path, schema=SCHEMA, partition_by=partition_by, properties=dict(properties))
        for start in range(0, 60, 60 // files):
            more = some_rows(start, start + 60 // files)
            tables.append(table.path, as_table(more))
            table.rows += more
        table.check()
        table.row_ids = table._read_row_ids()
        return table

    @property
    def version(self) -> int:
        return lakeport.scan(self.path).version

    def read(self, version: int | None = None) -> list[Row]:
        frame = lakeport.scan(self.path)
        rows: list[Row] = (frame if version is None else frame.at(version=version)).to_arrow().to_pylist()
        return rows

    def files_on_disk(self) -> set[str]:
        return {str(p.relative_to(self.path)) for p in Path(self.path).rglob("*") if p.is_file()}

    def delete(self, where: str | Expression | None, holds: Callable[[Row], Any]) -> Result:
        """`holds` is the condition in Python: rows for which it is true go."""
        result = tables.delete(self.path, where)
        gone = [row for row in self.rows if holds(row) is True]
        self.rows = [row for row in self.rows if holds(row) is not True]
        self.check(result.version, {"delete": gone})
        if "numDeletedRows" in result.metrics:
            assert result.metrics["numDeletedRows"] == len(gone)
        return result

    def update(
        self,
        assignments: Mapping[str, Any],
        where: str | Expression | None,
        change: Callable[[Row], Row],
        holds: Callable[[Row], Any] = lambda row: True,
    ) -> Result:
        """`change` gives the columns that a row has anew."""
        result = tables.update(self.path, assignments, where)
        before = [row for row in self.rows if holds(row) is True]
        after = [row | change(row) for row in before]
        self.rows = [row for row in self.rows if holds(row) is not True] + after
        self.check(result.version, {"update_preimage": before, "update_postimage": after})
        assert result.metrics["numUpdatedRows"] == len(before)
        return result

    def overwrite(self, rows: list[Row], gone: Callable[[Row], bool], **options: Any) -> Result:
        """`gone` tells which rows the new ones replace; they have ids of their own."""
        result = tables.overwrite(self.path, as_table(rows), **options)
        deleted = [row for row in self.rows if gone(row)]
        self.rows = [row for row in self.rows if not gone(row)] + rows
        for row in deleted:
            self.row_ids.pop(row["id"], None)
        self.check(result.version, {"delete": deleted, "insert": rows})
        return result

    def check(self, version: int | None = None, changes: Mapping[str, list[Row]] | None = None) -> None:
        """The rows are those of the model, for every reader; the changes of the version are exactly these."""
        assert counted(self.read()) == counted(self.rows)
        assert lakeport.scan(self.path).count() == len(self.rows)
        assert self._count_of_peer() == len(self.rows)
        if "delta.enableRowTracking" in self.properties:
            found = self._read_row_ids()
            assert len(set(found.values())) == len(found), "two rows have one id"
            assert {i: found.get(i) for i in self.row_ids if i in found} == {
                i: row_id for i, row_id in self.row_ids.items() if i in found
            }
        if version is not None and any((changes or {}).values()) and "delta.enableChangeDataFeed" in self.properties:
            self._check_changes(version, changes or {})

    def _check_changes(self, version: int, changes: Mapping[str, list[Row]]) -> None:
        fed = lakeport.scan(self.path).changes(version, version).to_arrow().to_pylist()
        extra = ("_change_type", "_commit_version", "_commit_timestamp")
        found: dict[str, list[Row]] = {}
        for row in fed:
            plain = {name: value for name, value in row.items() if name not in extra}
            found.setdefault(row["_change_type"], []).append(plain)
        kinds = {kind for kind, rows in changes.items() if rows}
        assert {kind: counted(rows) for kind, rows in found.items()} == {k: counted(changes[k]) for k in kinds}

    def _read_row_ids(self) -> dict[int, int]:
        if "delta.enableRowTracking" not in self.properties:
            return {}
        rows = lakeport.scan(self.path).with_row_tracking().to_arrow().to_pylist()
        return {row["id"]: row["_row_id"] for row in rows}

    def row_versions(self) -> dict[int, int]:
        """For each row, the version that changed it last."""
        rows = lakeport.scan(self.path).with_row_tracking().to_arrow().to_pylist()
        return {row["id"]: row["_row_commit_version"] for row in rows}

    def _count_of_peer(self) -> int:
        if "delta.columnMapping.mode" in self.properties:
            return len(self.rows)  # deltalake does not read such tables
        query = QueryBuilder().register("t", DeltaTable(self.path)).execute("SELECT count(*) AS c FROM t")
        count: int = pa.table(query.read_all())["c"][0].as_py()
        return count


class RivalStorage(CountingStorage):
    """The disk; just before the first commit through it is written, another writer does something."""

    def __init__(self, rival: Callable[[], object]) -> None:
        super().__init__(Storage())
        self._rival: Callable[[], object] | None = rival

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        if path.endswith(".json") and self._rival is not None:
            rival, self._rival = self._rival, None
            rival()
        super().write(path, data, overwrite=overwrite)


class FailingStorage(CountingStorage):
    """The disk, on which files whose names have `fatal` in them cannot be made, but for the first `after` of them."""

    def __init__(self, fatal: str, after: int = 0) -> None:
        super().__init__(Storage())
        self._fatal, self._after = fatal, after

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._check(path)
        super().write(path, data, overwrite=overwrite)

    def open_output(self, path: str) -> OutputFile:
        self._check(path)
        return super().open_output(path)

    def _check(self, path: str) -> None:
        if self._fatal in path:
            self._after -= 1
            if self._after < 0:
                raise StorageError("the disk is full", path=path)
