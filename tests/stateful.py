"""Random sequences of operations on a table, beside a plain model: a list of dicts for each version.

After every step the rows are those of the model, now and at an older version, and the change data feed between two
versions, applied to the rows of the one, gives those of the other. The test has a clock of its own, which it can move:
files on the disk are as old as it says.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lakeport
from lakeport import tables
from lakeport.engine import engine_over
from lakeport.engine.clock import system_clock
from lakeport.engine.storage.storage import Storage
from lakeport.kernel.definition import DELETED_FILE_RETENTION, LOG_RETENTION
from tests.rows import counted

Row = dict[str, Any]
Kind = Literal["long", "string"]
Columns = dict[str, tuple[Kind, int]]
"""The kind of each column, and which column it is: another one may come under the same name."""
RowIds = Literal["kept", "fewer", "more", "any"]
"""What an operation does to the ids of rows."""

DAY = 86_400_000
ARROW = {"long": pa.int64(), "string": pa.string()}
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
VECTORS = "delta.enableDeletionVectors"
FEED = "delta.enableChangeDataFeed"
TRACKING = "delta.enableRowTracking"
MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True)
class Version:
    rows: list[Row]
    columns: Columns
    time: int
    """In milliseconds since the epoch, by the test's clock."""


@dataclass(frozen=True)
class Condition:
    """The same condition in SQL and in Python."""

    sql: str
    holds: Callable[[Row], bool]


CONDITIONS = st.one_of(
    st.integers(0, 9).map(lambda k: Condition(f"id < {k}", lambda row: row["id"] < k)),
    st.integers(2, 4).map(lambda k: Condition(f"id % {k} = 1", lambda row: row["id"] % k == 1)),
    st.sampled_from("xy").map(lambda p: Condition(f"part = '{p}'", lambda row: row["part"] == p)),
    st.just(Condition("part IS NULL OR id = 0", lambda row: row["part"] is None or row["id"] == 0)),
    st.just(Condition("part != 'x'", lambda row: row["part"] not in ("x", None))),
    st.just(Condition("true", lambda row: True)),
)
PARTS = st.sampled_from(["x", "y", "a b/%", None])
ROWS = st.lists(st.tuples(st.integers(0, 9), PARTS, st.integers(-3, 3)), max_size=6)
NAMES = st.sampled_from(["a", "b", "c", "n", "Text"])
KINDS: st.SearchStrategy[Kind] = st.sampled_from(["long", "string"])
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        VECTORS: st.just("true"),
        FEED: st.just("true"),
        TRACKING: st.just("true"),
        MAPPING: st.sampled_from(["name", "id"]),
        "delta.enableInCommitTimestamps": st.just("true"),
        "delta.checkpointPolicy": st.just("v2"),
        "delta.checkpointInterval": st.sampled_from(["1", "2", "3"]),
        "delta.checkpoint.writeStatsAsStruct": st.just("true"),
        "delta.checkpoint.writeStatsAsJson": st.just("false"),
    },
)


class DatedStorage(Storage):
    """The disk, on which commits have the time of a clock."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__()
        self._clock = clock

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        super().write(path, data, overwrite=overwrite)
        date_file(Path(path), self._clock())


def date_file(file: Path, milliseconds: int) -> None:
    os.utime(file, (milliseconds / 1000, milliseconds / 1000))


def filled(rows: list[Row], columns: Columns) -> list[Row]:
    """Rows as they look when columns have come."""
    return [{name: row.get(name) for name in columns} for row in rows]


class TableMachine(RuleBasedStateMachine):
    """Operations on one table. `check_with_peers` is for those who know other readers."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "a table")
        self.offset = 0
        self.engine = engine_over(DatedStorage(self.now), self.now)
        self.dated: set[Path] = set()
        self.versions: list[Version] = []
        self.vacuumed_up_to = 0
        """What stopped being the latest version before this time may be gone."""
        self.columns_made = 2
        self.properties: dict[str, str] = {}
        self.row_ids: set[int] = set()
        self.used_row_ids: set[int] = set()

    def now(self) -> int:
        return system_clock() + self.offset

    def teardown(self) -> None:
        try:
            if self.versions:
                self.check_with_peers()
        finally:
            self.folder.cleanup()

    def check_with_peers(self) -> None:
        """Compares what other readers say."""

    # What the table should be

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    @property
    def is_mapped(self) -> bool:
        return MAPPING in self.properties

    def is_readable(self, version: int) -> bool:
        """Whether the version must still be there: vacuum and the log's own cleanup take away what is old."""
        if version == len(self.versions) - 1:
            return True
        replaced_at = self.versions[version + 1].time
        within_log = self.versions[version].time > self.now() - LOG_RETENTION.default
        return replaced_at >= self.vacuumed_up_to and within_log

    def readable(self) -> list[int]:
        return [version for version in range(len(self.versions)) if self.is_readable(version)]

    def new_rows(self, drawn: list[tuple[int, str | None, int]]) -> list[Row]:
        made = []
        for number, part, value in drawn:
            row: Row = {name: value if kind == "long" else f"v {value}" for name, (kind, _) in self.columns.items()}
            made.append(row | {"id": number, "part": part} | ({"n": None} if value == 0 and "n" in row else {}))
        return made

    @property
    def columns(self) -> Columns:
        return self.latest.columns

    def arrow(self, rows: list[Row], columns: Columns | None = None) -> pa.Table:
        schema = pa.schema([(name, ARROW[kind]) for name, (kind, _) in (columns or self.columns).items()])
        return pa.Table.from_pylist(rows, schema)

    def done(
        self, result: tables.Result, rows: list[Row], columns: Columns | None = None, row_ids: RowIds = "any"
    ) -> None:
        """Takes note of what an operation should have done, in the version, or versions, that it made."""
        new = Version(rows, columns or self.columns, self.now())
        assert result.version >= len(self.versions) - 1
        if result.version < len(self.versions):
            assert counted(new.rows) == counted(self.latest.rows)
            assert new.columns == self.columns
        while len(self.versions) <= result.version:
            self.versions.append(new)
        self.date_files()
        self.check_row_ids(row_ids)
        self.offset += 1000

    def date_files(self) -> None:
        """Makes new files as old as the test's clock says."""
        for file in Path(self.path).rglob("*"):
            if file not in self.dated and file.is_file():
                date_file(file, self.now())
                self.dated.add(file)

    def check_row_ids(self, change: RowIds) -> None:
        if TRACKING not in self.properties:
            return
        listed = lakeport.scan(self.path, engine=self.engine).with_row_tracking().to_arrow()["_row_id"].to_pylist()
        before, found = self.row_ids, set(listed)
        assert len(found) == len(listed), "two rows have one id"
        assert {
            "kept": found == before,
            "fewer": found <= before,
            "more": found >= before and not (found - before) & self.used_row_ids,
            "any": True,
        }[change], f"{change}: {sorted(before)} became {sorted(found)}"
        self.row_ids, self.used_row_ids = found, self.used_row_ids | found

    # Operations

    @initialize(properties=PROPERTIES, partitioned=st.booleans(), drawn=ROWS)
    def create(self, properties: dict[str, str], partitioned: bool, drawn: list[tuple[int, str | None, int]]) -> None:
        if "delta.checkpoint.writeStatsAsStruct" not in properties:
            properties.pop("delta.checkpoint.writeStatsAsJson", None)
        self.properties, self.partitioned = properties, partitioned
        columns: Columns = {"id": ("long", 0), "part": ("string", 1), "n": ("long", 2)}
        self.versions = [Version([], columns, self.now())]
        rows = self.new_rows(drawn)
        result = tables.create(
            self.path,
            self.arrow(rows),
            partition_by=["part"] if partitioned else [],
            properties=properties,
            engine=self.engine,
        )
        self.versions = []
        self.done(result, rows, columns)

    @rule(drawn=ROWS)
    def append(self, drawn: list[tuple[int, str | None, int]]) -> None:
        rows = self.new_rows(drawn)
        result = tables.append(self.path, self.arrow(rows), engine=self.engine)
        self.done(result, self.latest.rows + rows, row_ids="more")

    @rule(drawn=ROWS, name=NAMES, kind=KINDS)
    def append_with_another_column(self, drawn: list[tuple[int, str | None, int]], name: str, kind: Kind) -> None:
        if name in self.columns:
            return
        columns = self.with_column(name, kind)
        rows = [row | {name: row["id"] if kind == "long" else "new"} for row in self.new_rows(drawn)]
        result = tables.append(self.path, self.arrow(rows, columns), merge_schema=True, engine=self.engine)
        self.done(result, filled(self.latest.rows, columns) + rows, columns, row_ids="more")

    @rule(drawn=ROWS)
    def overwrite(self, drawn: list[tuple[int, str | None, int]]) -> None:
        rows = self.new_rows(drawn)
        result = tables.overwrite(self.path, self.arrow(rows), engine=self.engine)
        self.done(result, rows)

    @rule(drawn=ROWS, condition=CONDITIONS)
    def overwrite_where(self, drawn: list[tuple[int, str | None, int]], condition: Condition) -> None:
        rows = [row for row in self.new_rows(drawn) if condition.holds(row)]
        result = tables.overwrite(self.path, self.arrow(rows), where=condition.sql, engine=self.engine)
        self.done(result, [row for row in self.latest.rows if not condition.holds(row)] + rows)

    @precondition(lambda self: self.versions and self.partitioned)
    @rule(drawn=ROWS)
    def overwrite_partitions(self, drawn: list[tuple[int, str | None, int]]) -> None:
        rows = self.new_rows(drawn)
        result = tables.overwrite(self.path, self.arrow(rows), partitions="dynamic", engine=self.engine)
        parts = {row["part"] for row in rows}
        self.done(result, [row for row in self.latest.rows if row["part"] not in parts] + rows)

    @rule(condition=CONDITIONS)
    def delete(self, condition: Condition) -> None:
        result = tables.delete(self.path, condition.sql, engine=self.engine)
        self.done(result, [row for row in self.latest.rows if not condition.holds(row)], row_ids="fewer")

    @rule(condition=CONDITIONS, number=st.integers(0, 9))
    def update(self, condition: Condition, number: int) -> None:
        column = sorted(self.columns)[number % len(self.columns)]
        is_long = self.columns[column][0] == "long"
        result = tables.update(
            self.path,
            {column: f"id + {number}" if is_long else lakeport.lit("y")},
            condition.sql,
            engine=self.engine,
        )
        rows = [
            row | {column: row["id"] + number if is_long else "y"} if condition.holds(row) else row
            for row in self.latest.rows
        ]
        self.done(result, rows, row_ids="kept")

    @rule(drawn=ROWS, deletes=CONDITIONS, number=st.integers(0, 1))
    def merge(self, drawn: list[tuple[int, str | None, int]], deletes: Condition, number: int) -> None:
        source = {row["id"]: row for row in self.new_rows(drawn)}
        merge = tables.merge(self.path, self.arrow(list(source.values())), "target.id = source.id", engine=self.engine)
        sql = deletes.sql.replace("id", "target.id").replace("part", "target.part")
        merge = merge.when_matched_delete(sql).when_matched_update_all().when_not_matched_insert_all()
        if number:
            merge = merge.when_not_matched_by_source_update({"part": lakeport.lit("x")}, "target.id = 5")
        result = merge.execute()
        rows = [row for row in source.values() if row["id"] not in {r["id"] for r in self.latest.rows}]
        for row in self.latest.rows:
            if row["id"] not in source:
                rows.append(row | {"part": "x"} if number and row["id"] == 5 else row)
            elif not deletes.holds(row):
                rows.append(source[row["id"]])
        self.done(result, rows)

    @rule(purge=st.booleans())
    def optimize(self, purge: bool) -> None:
        self.done(tables.optimize(self.path, purge=purge, engine=self.engine), self.latest.rows, row_ids="kept")

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(self.readable()))
        then = self.versions[version]
        result = tables.restore(self.path, version=version, engine=self.engine)
        self.done(result, then.rows, then.columns)

    @rule(name=NAMES, kind=KINDS)
    def add_column(self, name: str, kind: Kind) -> None:
        if name in self.columns:
            return
        columns = self.with_column(name, kind)
        result = tables.add_columns(self.path, {name: kind}, engine=self.engine)
        self.done(result, filled(self.latest.rows, columns), columns, row_ids="kept")

    @precondition(lambda self: self.versions and self.is_mapped)
    @rule(old=NAMES, new=NAMES)
    def rename_column(self, old: str, new: str) -> None:
        if old not in self.columns or new in self.columns:
            return
        result = tables.rename_column(self.path, old, new, engine=self.engine)
        columns = {new if name == old else name: column for name, column in self.columns.items()}
        rows = [{new if name == old else name: value for name, value in row.items()} for row in self.latest.rows]
        self.done(result, rows, columns, row_ids="kept")

    @precondition(lambda self: self.versions and self.is_mapped)
    @rule(name=NAMES)
    def drop_column(self, name: str) -> None:
        if name not in self.columns:
            return
        columns = {known: column for known, column in self.columns.items() if known != name}
        result = tables.drop_columns(self.path, [name], engine=self.engine)
        self.done(result, filled(self.latest.rows, columns), columns, row_ids="kept")

    @rule(is_on=st.booleans())
    def switch_deletion_vectors(self, is_on: bool) -> None:
        result = tables.set_properties(self.path, {VECTORS: str(is_on).lower()}, engine=self.engine)
        self.done(result, self.latest.rows, row_ids="kept")

    @rule()
    def checkpoint(self) -> None:
        self.done(tables.checkpoint(self.path, engine=self.engine), self.latest.rows, row_ids="kept")

    @rule()
    def vacuum(self) -> None:
        result = tables.vacuum(self.path, dry_run=False, engine=self.engine)
        self.vacuumed_up_to = max(self.vacuumed_up_to, self.now() - DELETED_FILE_RETENTION.default)
        self.done(result, self.latest.rows, row_ids="kept")

    @rule(days=st.sampled_from([3, 8, 35]))
    def move_the_clock(self, days: int) -> None:
        self.offset += days * DAY

    def with_column(self, name: str, kind: Kind) -> Columns:
        self.columns_made += 1
        return {**self.columns, name: (kind, self.columns_made)}

    # What holds after each of them

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if not self.versions:
            return
        frame = lakeport.scan(self.path, engine=self.engine)
        assert frame.version == len(self.versions) - 1
        assert frame.schema.names == list(self.columns)
        assert counted(frame.to_arrow().to_pylist()) == counted(self.latest.rows)
        assert frame.count() == len(self.latest.rows)
        older = self.any_of(self.readable())
        assert counted(frame.at(version=older).to_arrow().to_pylist()) == counted(self.versions[older].rows)

    @invariant()
    def changes_lead_from_one_version_to_another(self) -> None:
        if FEED not in self.properties:
            return
        start, end = sorted([self.any_of(self.readable()), self.any_of(self.readable(), 1)])
        columns = self.versions[end].columns
        if any(not v.columns.items() <= columns.items() for v in self.versions[start:end]) or start == end:
            return
        fed = lakeport.scan(self.path, engine=self.engine).changes(start + 1, end).to_arrow().to_pylist()
        rows = counted(filled(self.versions[start].rows, columns))
        for version in range(start + 1, end + 1):
            of_version = [row for row in fed if row["_commit_version"] == version]
            rows -= counted([plain(row) for row in of_version if row["_change_type"] in ("delete", "update_preimage")])
            rows += counted([plain(row) for row in of_version if row["_change_type"] in ("insert", "update_postimage")])
            assert rows == counted(filled(self.versions[version].rows, columns)), f"version {version}"

    def any_of(self, versions: list[int], number: int = 0) -> int:
        """One of the versions; the same in every run."""
        return Random(f"{len(self.versions)} {number}").choice(versions)


def plain(row: Mapping[str, Any]) -> Row:
    """A changed row as the table has it."""
    return {name: value for name, value in row.items() if name not in CHANGE_COLUMNS}
