"""Read commit files, in one of two ways.

By columns (`read_batches`, `read_commit`), for many file actions. By lines (`CommitLines`), for the few actions that
matter to a writer or to a range of versions, and for whole `commitInfo`s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import (
    STATE_FIELDS,
    Add,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    TableState,
    Transaction,
    to_action,
)
from lakeport.kernel.engine import FILE_INDEX, Engine, FileStatus, StorageClient
from lakeport.kernel.log.files import FileColumns, decode_paths, present_actions
from lakeport.kernel.values import TRUE, to_integers, to_mask

FILE_KINDS = ("add", "remove", "cdc")
_TIME, _OPERATION = ("inCommitTimestamp", pa.int64()), ("operation", pa.string())


@dataclass(frozen=True)
class ActionBatch:
    """Actions by kind, and for each of them the index of its file."""

    actions: Mapping[str, pa.StructArray]
    files: Mapping[str, npt.NDArray[np.int64]]

    def __getitem__(self, kind: str) -> pa.StructArray:
        return self.actions[kind]


def read_batches(
    engine: Engine,
    root: str,
    files: Sequence[FileStatus],
    fields: Sequence[pa.Field],
    state: TableState | None = None,
) -> Iterator[ActionBatch]:
    """The actions of commit files in batches; their kinds are the names of the fields. The files come newest first
    if there is a `state`, to which other actions are added. Raises `CorruptTableError`."""
    schema = pa.schema([*fields, *([] if state is None else STATE_FIELDS), FILE_INDEX])
    for batch in engine.json.read_json_files(files, schema) if files else ():
        if state is not None:
            state.add_older(batch, files)
        columns = {kind.name: batch.column(kind.name) for kind in fields}
        numbers = to_integers(batch.column(FILE_INDEX.name))
        yield ActionBatch(
            {kind: present_actions(column, root) for kind, column in columns.items()},
            {kind: _where_present(column, numbers) for kind, column in columns.items()},
        )


def _where_present(column: pa.StructArray, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers of the rows that are not null; takes no memory if all are the same."""
    if len(numbers) and numbers[0] == numbers[-1]:  # they ascend
        return np.broadcast_to(numbers[0], len(column) - column.null_count)
    return numbers[to_mask(column.is_valid())]


@dataclass(frozen=True)
class CommitActions:
    """The actions of a commit; file actions are in columns for `to_file_batch`."""

    version: int
    file: FileStatus
    adds: list[pa.StructArray] = field(default_factory=list)
    removes: list[pa.StructArray] = field(default_factory=list)
    cdc: list[pa.StructArray] = field(default_factory=list)
    """If there are any, they cover all changes made by the adds and removes."""
    state: TableState = field(default_factory=TableState)
    info: dict[str, Any] = field(default_factory=dict)
    """The commit's `inCommitTimestamp` and, if wanted, its `operation`; without those it lacks."""

    def changing(self) -> CommitActions:
        """A copy without adds and removes that change no data (`dataChange` is false)."""
        return replace(self, adds=_that_change(self.adds), removes=_that_change(self.removes))

    @property
    def changes_data(self) -> bool:
        """Whether any add or remove has `dataChange` set or missing."""
        columns = (actions.field("dataChange") for actions in (*self.adds, *self.removes))
        return any(pc.any(pc.coalesce(column, TRUE)).as_py() for column in columns)

    def replaced_paths(self, root: str) -> pa.ChunkedArray:
        """The plain paths that the commit both removes and adds, to replace their deletion vectors."""
        if not self.adds or not self.removes:
            return pa.chunked_array([], pa.string())
        added, removed = _plain_paths(self.adds, root), _plain_paths(self.removes, root)
        return added.filter(pc.is_in(added, value_set=removed))


def read_commit(
    engine: Engine,
    root: str,
    version: int,
    file: FileStatus,
    columns: Mapping[str, FileColumns],
    *,
    with_operation: bool = False,
) -> CommitActions:
    """Read a commit file in one pass: the given columns of each kind of file action, and all other actions. Raises
    `CorruptTableError`, also for an `operation` that is wanted but not text, and `MissingFileError` if the file is
    gone."""
    commit = CommitActions(version, file)
    lists = {"add": commit.adds, "remove": commit.removes, "cdc": commit.cdc}
    info_field = pa.field("commitInfo", pa.struct([_TIME, _OPERATION] if with_operation else [_TIME]))
    fields = [*(pa.field(kind, wanted.commit_type) for kind, wanted in columns.items()), info_field]
    for found in read_batches(engine, root, [file], fields, commit.state):
        for kind in columns:
            if len(found[kind]):
                lists[kind].append(found[kind])
        for info in found["commitInfo"].to_pylist():
            commit.info.update({n: v for n, v in info.items() if v is not None and n not in commit.info})
    return commit


def _plain_paths(columns: Sequence[pa.StructArray], root: str) -> pa.ChunkedArray:
    """The decoded paths of file actions."""
    return pa.chunked_array([decode_paths(actions.field("path"), root) for actions in columns], pa.string())


def _that_change(columns: list[pa.StructArray]) -> list[pa.StructArray]:
    kept = (actions.filter(pc.coalesce(actions.field("dataChange"), TRUE)) for actions in columns)
    return [actions for actions in kept if len(actions)]


class _InfoLine(msgspec.Struct, rename={"info": "commitInfo"}):
    """A line of a commit file of which only a `commitInfo` matters."""

    info: dict[str, Any] | None = None


class ActionLine(_InfoLine, rename={"info": "commitInfo", "domain": "domainMetadata", "metadata": "metaData"}):
    """A line of a commit file: one action."""

    add: Add | None = None
    remove: Remove | None = None
    txn: Transaction | None = None
    domain: DomainMetadata | None = None
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


_Line = TypeVar("_Line", bound=_InfoLine)


@dataclass(frozen=True)
class CommitLines:
    """A commit file whose lines are decoded as needed."""

    path: str
    data: bytes

    def __iter__(self) -> Iterator[ActionLine]:
        return self._decoded(ActionLine, (line for line in self.data.splitlines() if line.strip()))

    def with_any(self, *kinds: str) -> Iterator[ActionLine]:
        """The lines that may be actions of these kinds. Raises `CorruptTableError` for an invalid one."""
        return self._decoded(ActionLine, self._naming(*kinds))

    @property
    def may_have_vectors(self) -> bool:
        """Whether a file of the commit may have a deletion vector."""
        return _may_name(self.data, ("deletionVector",))

    @property
    def info(self) -> dict[str, Any]:
        """The whole `commitInfo`; empty if there is none."""
        lines = self._decoded(_InfoLine, self._naming("commitInfo"))
        return next((line.info for line in lines if line.info is not None), {})

    def state(self) -> tuple[Protocol | None, Metadata | None]:
        """The protocol and the metadata that the commit sets."""
        protocol, metadata = None, None
        for line in self.with_any("protocol", "metaData"):
            if line.protocol is not None:
                protocol = to_action(line.protocol, Protocol, self.path)
            if line.metadata is not None:
                metadata = to_action(line.metadata, Metadata, self.path)
        return protocol, metadata

    def _naming(self, *kinds: str) -> Iterator[bytes]:
        if _may_name(self.data, kinds):
            yield from (line for line in self.data.splitlines() if _may_name(line, kinds))

    def _decoded(self, kind: type[_Line], lines: Iterator[bytes]) -> Iterator[_Line]:
        decoder = msgspec.json.Decoder(kind)
        try:
            yield from map(decoder.decode, lines)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CorruptTableError(f"the commit has a line that is not valid: {error}", path=self.path) from error


def read_lines(storage: StorageClient, file: FileStatus) -> CommitLines:
    return CommitLines(file.path, storage.read(file.path))


def _may_name(text: bytes, keys: Sequence[str]) -> bool:
    """Keys may be escaped, so text with escapes must be parsed."""
    return b"\\u" in text or any(f'"{key}"'.encode() in text for key in keys)
