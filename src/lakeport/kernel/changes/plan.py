"""Plan a read of changes: which files of each commit to read and which filter remains. Reads only the log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import ChangeFeedError
from lakeport.kernel.actions import to_action
from lakeport.kernel.changes.files import DELETE, INSERT, ChangeFile, ChangeState, timestamps
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.expressions import Expression, all_of, columns_in, conjuncts
from lakeport.kernel.log import CommitActions, decode_paths, to_file_batch
from lakeport.kernel.paths import whole_path
from lakeport.kernel.scan import PlanBuilder, ScanFile, scan_files_in
from lakeport.kernel.schema import CHANGE_COLUMNS, CHANGE_TYPE, StructType, arrow_schema
from lakeport.kernel.values import array_of

if TYPE_CHECKING:
    from lakeport.kernel.changes.feed import TableChanges


class ChangeScanBuilder(PlanBuilder["ChangeScan"]):
    """Collects the options of a read of changes. Filters may also use the change columns."""

    def __init__(self, changes: TableChanges) -> None:
        super().__init__(changes.engine, changes.schema)
        self._changes = changes

    def build(self) -> ChangeScan:
        return ChangeScan(self._changes, self._schema, self._filter, self._stats)


class ChangeScan:
    """A plan for reading a table's changes."""

    def __init__(
        self, changes: TableChanges, schema: StructType, predicate: Expression | None, with_stats: bool
    ) -> None:
        self.changes, self.schema, self.filter = changes, schema, predicate
        on_table, self._on_change, mixed = _split(predicate)
        builder = changes.snapshot.scan_builder().with_read_schema(
            StructType(tuple(f for f in schema if f.name not in CHANGE_COLUMNS.names))
        )
        if (condition := all_of(on_table)) is not None:
            builder = builder.with_filter(condition)
        self._table = (builder.with_stats() if with_stats else builder).build()
        """The scan for the table's own columns: reads files like a scan of the last version."""
        left = self._table.remaining_filter
        self._rest = mixed if left is None else [left, *mixed]
        self.physical_filter = self._table.physical_filter
        """The remaining filter in physical names, for the Parquet handler, without columns that the files lack."""

    @property
    def remaining_filter(self) -> Expression | None:
        """The part of the filter that file selection does not already guarantee."""
        return all_of([*self._rest, *(p for p in self._on_change if _is_on_type(p))])

    @cached_property
    def scan_state(self) -> ChangeState:
        names = tuple(f.name for f in self.schema if f.name in CHANGE_COLUMNS.names)
        return ChangeState(table=self._table.scan_state, change_columns=names)

    def files(self) -> Iterator[ChangeFile]:
        """The files to read, commit by commit. Raises the errors of `TableChanges.commits`."""
        for commit in self.changes.commits(self._table.columns):
            yield from _CommitPlan(self, commit).files()

    def counted_files(self) -> Iterator[tuple[ChangeFile, int | None]]:
        """The files to read, each with the number of changes that satisfy the filter, if known from the log."""
        for change in self.files():
            yield change, None if self._rest or change.change_type is None else change.num_records

    def may_hold(self, change_type: str | None, version: int, timestamp: int) -> bool:
        """Whether such a change can satisfy the filter on the change columns. None means any type."""
        predicate = all_of(p for p in self._on_change if change_type is not None or not _is_on_type(p))
        if predicate is None:
            return True
        schema = arrow_schema(CHANGE_COLUMNS)
        values = [array_of([change_type], pa.string()), array_of([version], pa.int64()), timestamps(timestamp, 1)]
        evaluate = self.changes.engine.expressions.predicate_evaluator(schema, predicate)
        return bool(evaluate(make_batch(values, schema, 1), None)[0].as_py())

    def select(self, actions: pa.StructArray, version: int) -> Iterator[ScanFile]:
        """The files to read from a column of file actions. Raises `ChangeFeedError`."""
        columns, root = self._table.columns, self.changes.root
        if columns.partitions and actions.field("partitionValues").null_count:
            unknown = actions.filter(actions.field("partitionValues").is_null()).field("path")[0]
            raise ChangeFeedError(
                f"version {version} removes {unknown} without its partition values, so those of its rows are unknown; "
                f"start after this version [{root}]",
                version=version,
            )
        return scan_files_in(self._table.select(to_file_batch(actions, columns, root)), root)


class _CommitPlan:
    """The change files of one commit."""

    def __init__(self, scan: ChangeScan, commit: CommitActions) -> None:
        self._scan, self._commit, self._root = scan, commit, scan.changes.root
        self._timestamp = scan.changes.time_of(commit)

    def files(self) -> Iterator[ChangeFile]:
        if self._commit.cdc:
            yield from self._whole(None, self._commit.cdc)
            return
        adds, removes = self._commit.adds, self._commit.removes
        if len(replaced := self._commit.replaced_paths(self._root)):
            back, adds = self._divide(adds, replaced)
            kept, removes = self._divide(removes, replaced)
            yield from self._differences(kept, back)
        yield from self._whole(DELETE, removes)
        yield from self._whole(INSERT, adds)

    def _whole(self, change_type: str | None, columns: list[pa.StructArray]) -> Iterator[ChangeFile]:
        if self._is_wanted(change_type):
            for file in self._selected(columns):
                yield self._change(file, change_type)

    def _differences(self, removes: list[pa.StructArray], adds: list[pa.StructArray]) -> Iterator[ChangeFile]:
        """Files whose deletion vectors were replaced: rows that only the new vector deletes are deletes, rows that only
        the old one deletes are inserts. Identical vectors yield nothing."""
        old_vectors = dict(self._vectors(removes))
        deletes, inserts = self._is_wanted(DELETE), self._is_wanted(INSERT)
        for file in self._selected(adds):
            old, new = old_vectors[file.path], file.deletion_vector
            if (old and old.unique_id) == (new and new.unique_id):
                continue
            if new is not None and deletes:
                yield self._change(msgspec.structs.replace(file, deletion_vector=old), DELETE, new)
            if old is not None and inserts:
                yield self._change(file, INSERT, old)

    def _vectors(self, removes: list[pa.StructArray]) -> Iterator[tuple[str, DeletionVectorDescriptor | None]]:
        for actions in removes:
            paths = decode_paths(actions.field("path"), self._root).to_pylist()
            for path, raw in zip(paths, actions.field("deletionVector").to_pylist(), strict=True):
                vector = None if raw is None else to_action(raw, DeletionVectorDescriptor, self._root)
                yield whole_path(path, self._root), vector

    def _selected(self, columns: list[pa.StructArray]) -> Iterator[ScanFile]:
        for actions in columns:
            yield from self._scan.select(actions, self._commit.version)

    def _change(
        self, file: ScanFile, change_type: str | None, deleted_in: DeletionVectorDescriptor | None = None
    ) -> ChangeFile:
        return ChangeFile(
            file=file,
            change_type=change_type,
            commit_version=self._commit.version,
            commit_timestamp=self._timestamp,
            deleted_in=deleted_in,
        )

    def _is_wanted(self, change_type: str | None) -> bool:
        return self._scan.may_hold(change_type, self._commit.version, self._timestamp)

    def _divide(
        self, columns: list[pa.StructArray], replaced: pa.ChunkedArray
    ) -> tuple[list[pa.StructArray], list[pa.StructArray]]:
        """Split the actions into those on the given paths and the others."""
        marked, others = [], []
        for actions in columns:
            found = pc.is_in(decode_paths(actions.field("path"), self._root), value_set=replaced)
            marked += [actions.filter(found)] if found.true_count else []
            others += [actions.filter(pc.invert(found))] if found.true_count < len(found) else []
        return marked, others


def _split(predicate: Expression | None) -> tuple[list[Expression], list[Expression], list[Expression]]:
    """Split a bound filter: parts on the table's columns, parts on the change columns, the rest."""
    parts: tuple[list[Expression], list[Expression], list[Expression]] = ([], [], [])
    for part in conjuncts(predicate) if predicate is not None else []:
        kinds = {column.path[0] in CHANGE_COLUMNS.names for column in columns_in(part)}
        parts[2 if len(kinds) > 1 else int(True in kinds)].append(part)
    return parts


def _is_on_type(predicate: Expression) -> bool:
    return any(column.path[0] == CHANGE_TYPE.name for column in columns_in(predicate))
