"""The changes of one commit: files added and removed, and files of which only the deletion vector changed.

Delta records a new deletion vector as a remove and an add of the same path. A commit may also add a file again to
update its details: that is not a change here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log import (
    STATE_FIELDS,
    FileColumns,
    TableState,
    decode_paths,
    file_keys,
    present_actions,
    to_file_batch,
)
from lakeport.kernel.paths import whole_path
from lakeport.kernel.scan import FilteredBatch, ScanFile, scan_files_in
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.values import TRUE

VectorId = str
"""The unique id of a deletion vector; empty for none."""
Key = tuple[str, VectorId]
"""A file of a version: its path, absolute and plain, and its deletion vector."""

_ADD = FileColumns(row_tracking=True, stats=True, log_details=True)
_DATA_CHANGE = pa.field("dataChange", pa.bool_())
_COMMIT_INFO = pa.field("commitInfo", pa.struct([("operation", pa.string()), ("inCommitTimestamp", pa.int64())]))
_SCHEMA = pa.schema(
    [
        pa.field("add", pa.struct([*_ADD.add_type, _DATA_CHANGE])),
        pa.field("remove", pa.struct([*FileColumns().add_type, _DATA_CHANGE])),
        *STATE_FIELDS,
        _COMMIT_INFO,
    ]
)


@dataclass
class CommitActions:
    """The actions of a commit file."""

    path: str
    state: TableState = field(default_factory=TableState)
    adds: list[pa.StructArray] = field(default_factory=list)
    removes: list[pa.StructArray] = field(default_factory=list)
    info: dict[str, object] = field(default_factory=dict)

    @property
    def changes_data(self) -> bool:
        """Whether any action has `dataChange` set or missing."""
        columns = (actions.field("dataChange") for actions in (*self.adds, *self.removes))
        return any(pc.any(pc.coalesce(column, TRUE)).as_py() for column in columns)

    def added_files(self, snapshot: Snapshot) -> dict[str, ScanFile]:
        """The added files by path. Raises `CorruptTableError` for a file with two deletion vectors."""
        columns = FileColumns(snapshot.physical_partition_columns, row_tracking=True, stats=True, log_details=True)
        found: dict[str, ScanFile] = {}
        for actions in self.adds:
            batch = to_file_batch(actions, columns, snapshot.root)
            for file in scan_files_in(FilteredBatch(batch), snapshot.root):
                if file.path in found and vector_id(found[file.path]) != vector_id(file):
                    raise CorruptTableError(f"the commit adds {file.path!r} with two deletion vectors", path=self.path)
                found[file.path] = file
        return found

    def removed_keys(self, root: str) -> list[Key]:
        """The removed paths, each with its deletion vector."""
        return [key for removes in self.removes for key in _keys_of(removes, root)]


def read_commit(engine: Engine, root: str, file: FileStatus) -> CommitActions:
    """Read a commit file in one pass. Raises `CorruptTableError`, and `MissingFileError` if it is gone."""
    commit = CommitActions(file.path)
    for batch in engine.json.read_json_files([file], _SCHEMA):
        commit.state.add_older(batch, file.path)
        for name, found in (("add", commit.adds), ("remove", commit.removes)):
            if len(actions := present_actions(batch.column(name), root)):
                found.append(actions)
        for info in batch.column("commitInfo").drop_null().to_pylist():
            commit.info.update({name: value for name, value in info.items() if value is not None})
    return commit


def live_keys(snapshot: Snapshot) -> Iterator[Key]:
    """The paths of a version's files, each with its deletion vector. Reads only log files."""
    for batch in snapshot.live_files(FileColumns()):
        for key in file_keys(batch.column("path"), batch.column("deletionVector")).to_pylist():
            yield _split_key(key, snapshot.root)


def vector_id(file: ScanFile) -> VectorId:
    return file.deletion_vector.unique_id if file.deletion_vector else ""


def _keys_of(actions: pa.StructArray, root: str) -> Iterator[Key]:
    paths = decode_paths(actions.field("path"), root)
    for key in file_keys(paths, actions.field("deletionVector")).to_pylist():
        yield _split_key(key, root)


def _split_key(key: str, root: str) -> Key:
    path, _, vector = key.partition("\0")
    return whole_path(path, root), vector


@dataclass(frozen=True, slots=True)
class CommitDiff:
    """The changed files and deletion vectors of a commit; see `TableChange`."""

    files_added: Sequence[ScanFile]
    files_removed: Sequence[str]
    vectors_added: Sequence[InternalDeletionVector]
    vectors_removed: Sequence[str]

    @property
    def growth(self) -> int:
        """The net number of files added."""
        return len(self.files_added) - len(self.files_removed)


def diff_commit(
    added: Mapping[str, ScanFile],
    removed: Sequence[Key],
    before: Mapping[str, VectorId],
    root: str,
) -> CommitDiff:
    """The changes of a commit that adds and removes these files, if the table had the files `before`; untouched ones
    may be omitted. Raises `CorruptTableError` if a file gets a second deletion vector while keeping the first."""
    removed_keys = set(removed)
    gone = [path for path, vector in removed_keys if before.get(path) == vector and path not in added]
    files_added, vectors_added, vectors_removed = [], [], [path for path in gone if before[path]]
    for path, file in added.items():
        former, now = before.get(path), vector_id(file)
        if former == now:
            continue
        if former is None:
            files_added.append(file)
        elif (path, former) not in removed_keys:
            raise CorruptTableError(f"{path!r} is added with another deletion vector, but not removed", path=root)
        elif former:
            vectors_removed.append(path)
        if vector := InternalDeletionVector.of(file, root):
            vectors_added.append(vector)
    return CommitDiff(files_added, gone, vectors_added, vectors_removed)
