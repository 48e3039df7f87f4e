"""Find files below a table's root that no version needs, by reading log files and comparing names.

A file is needed if it belongs to the latest version, was removed recently, is a deletion vector of such a file, or is
recent change data. A file younger than the retention is kept, because its writer may not have committed yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from unicodedata import normalize

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.actions import DELETION_VECTOR, to_action
from lakeport.kernel.data_files import partition_directory
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.log import ActionBatch, FileColumns, decode_paths, list_log, read_batches, read_checkpoint_files
from lakeport.kernel.paths import ABSOLUTE
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.values import scalar_of
from lakeport.kernel.write import CHANGE_DIRECTORY

_REMOVE = pa.field(
    "remove",
    pa.struct([("path", pa.string()), ("deletionVector", DELETION_VECTOR), ("deletionTimestamp", pa.int64())]),
)
_CDC = pa.field("cdc", pa.struct([("path", pa.string())]))
_ODD_SEGMENT = re.compile(r"(^|/)(\.{0,2})(/|$)")
_UNFINISHED = re.compile(r"\.(\d{20}\.\w[\w.-]*|_last_checkpoint|deletion_vector_.*)\.[0-9a-f]{32}\.tmp")
"""The name of a temporary file before its rename: of the log, or of a deletion vector."""
_NESTED_LOG = "/_delta_log/"


class NeededFiles:
    """The files needed by a table's versions since some time. `path in needed` errs on the safe side."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._relative: set[str] = set()
        self._names: set[str] = set()
        """Names of files whose paths may be spelled differently: they are, or seem to be, outside the root."""

    def __contains__(self, relative: str) -> bool:
        """Whether a file is needed; `relative` is its plain path relative to the root."""
        return _spelled(relative) in self._relative or _name(_spelled(relative)) in self._names

    def add_files(self, paths: pa.Array, vectors: pa.Array | None = None) -> None:
        """Add plain paths, relative or absolute, and deletion vector cells. Raises `CorruptTableError`."""
        for path in paths.to_pylist():
            self._add(path)
        for cell in [] if vectors is None else vectors.drop_null().to_pylist():
            location = to_action(cell, DeletionVectorDescriptor, self._root).location(self._root)
            if location is not None:
                self._add(location)

    def _add(self, path: str) -> None:
        relative = _spelled(path.removeprefix(f"{self._root}/"))
        if ABSOLUTE.match(relative) or _ODD_SEGMENT.search(relative):
            self._names.add(_name(relative))
        else:
            self._relative.add(relative)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _spelled(path: str) -> str:
    """Normalise characters that file systems may encode in two ways."""
    return path if path.isascii() else normalize("NFC", path)


def needed_files(snapshot: Snapshot, since: int) -> NeededFiles:
    """The files needed by versions that were current at or after `since`, in milliseconds since the epoch."""
    needed = NeededFiles(snapshot.root)
    for files in snapshot.live_files(FileColumns()):
        needed.add_files(files.column("path"), files.column("deletionVector"))
    for removes in _tombstones(snapshot, since):
        needed.add_files(decode_paths(removes.field("path"), snapshot.root), removes.field("deletionVector"))
    for found in _read_commits(snapshot, _recent_commits(snapshot, since)):
        removes, changes = found["remove"], found["cdc"]
        needed.add_files(decode_paths(removes.field("path"), snapshot.root), removes.field("deletionVector"))
        needed.add_files(decode_paths(changes.field("path"), snapshot.root))
    return needed


def _tombstones(snapshot: Snapshot, since: int) -> Iterator[pa.StructArray]:
    """The version's removes, unless older than `since`."""
    segment = snapshot.segment
    for found in _read_commits(snapshot, [commit.file for commit in segment.commits]):
        yield _recent(found["remove"], since)
    if segment.checkpoint is not None:
        for (removes,) in read_checkpoint_files(snapshot.engine, segment.checkpoint, [_REMOVE]):
            yield _recent(removes, since)


def _recent_commits(snapshot: Snapshot, since: int) -> list[FileStatus]:
    """Commits since then: files they remove were current before, even if a checkpoint has dropped the remove."""
    commits = list_log(snapshot.engine.storage, snapshot.root).commits.values()
    return [commit for commit in commits if commit.modification_time >= since]


def _read_commits(snapshot: Snapshot, files: list[FileStatus]) -> Iterator[ActionBatch]:
    return read_batches(snapshot.engine, snapshot.root, files, [_REMOVE, _CDC])


def _recent(removes: pa.StructArray, since: int) -> pa.StructArray:
    """The unexpired removes; one without a time has expired."""
    recent = pc.greater_equal(removes.field("deletionTimestamp"), scalar_of(since, pa.int64()))
    return removes.filter(recent, null_selection_behavior="drop")


def find_unneeded(snapshot: Snapshot, files: Iterable[FileStatus], needed: NeededFiles, since: int) -> list[FileStatus]:
    """The files below the root that can be deleted: old data, deletion vectors and change data, and unfinished files of
    crashed writers, in the log too.

    Skips names that start with `_` or `.` (except change data and partition directories), other tables below this root,
    and this table's Iceberg metadata."""
    prefix = f"{snapshot.root}/"
    hidden = _HiddenNames(snapshot)
    found: list[FileStatus] = []
    other_tables: set[str] = set()
    for file in files:
        relative = file.path.removeprefix(prefix)
        if relative == file.path:
            continue
        if (log := f"/{relative}".find(_NESTED_LOG)) > 0:
            other_tables.add(relative[: log - 1])
        elif file.modification_time < since and not hidden.hides(relative) and relative not in needed:
            found.append(file)
    return [file for file in found if not _is_below(file.path.removeprefix(prefix), other_tables)]


def may_matter(file: FileStatus, root: str, since: int) -> bool:
    """Whether `find_unneeded` needs the file: it is old enough to delete, or marks the root of another table."""
    return file.modification_time < since or _NESTED_LOG in file.path.removeprefix(root)


def _is_below(relative: str, directories: set[str]) -> bool:
    parts = relative.split("/")
    return bool(directories) and any("/".join(parts[:end]) in directories for end in range(1, len(parts)))


class _HiddenNames:
    """Paths below a table's root that are not its data."""

    def __init__(self, snapshot: Snapshot) -> None:
        names = {*snapshot.partition_columns, *snapshot.physical_partition_columns}
        self._partitions = tuple(partition_directory({name: ""}).partition("=")[0] + "=" for name in names)
        formats = snapshot.properties.get("delta.universalFormat.enabledFormats") or ""
        self._has_iceberg = "iceberg" in formats.lower()

    def hides(self, relative: str) -> bool:
        *directories, name = relative.split("/")
        if _UNFINISHED.fullmatch(name):
            return directories not in ([], ["_delta_log"])
        if name.startswith(("_", ".")):
            return True
        if directories and directories[0] == CHANGE_DIRECTORY:
            del directories[0]
        elif directories and directories[0] == "metadata" and self._has_iceberg:
            return True
        return any(d.startswith(("_", ".")) and not d.startswith(self._partitions) for d in directories)
