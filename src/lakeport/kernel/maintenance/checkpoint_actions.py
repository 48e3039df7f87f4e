"""The contents of a checkpoint: the surviving actions of a log segment, as columns.

Files are reconciled as in `replay`, but with all columns of their actions and with unexpired tombstones. Paths stay
as written in the log, so nothing is re-encoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.actions import DELETION_VECTOR, TEXT_MAP, Format
from lakeport.kernel.engine import AS_STORED, Engine
from lakeport.kernel.log import (
    LogSegment,
    TableState,
    commit_files,
    first_occurrences,
    keys_of,
    read_batches,
    read_checkpoint_files,
    read_checkpoint_state,
)
from lakeport.kernel.values import FALSE, array_of, from_numpy, scalar_of

_BATCH_SIZE = 1 << 14
"""File actions per batch: a few tens of MB with all columns."""

_KEPT_OF_ANY = [
    pa.field("partitionValues", TEXT_MAP),
    pa.field("size", pa.int64()),
    pa.field("deletionVector", DELETION_VECTOR),
    pa.field("baseRowId", pa.int64()),
    pa.field("defaultRowCommitVersion", pa.int64()),
]
ADD_FIELDS = [
    pa.field("path", pa.string()),
    *_KEPT_OF_ANY,
    pa.field("modificationTime", pa.int64()),
    pa.field("tags", TEXT_MAP),
    pa.field("clusteringProvider", pa.string()),
    pa.field("stats", pa.string()),
]
"""The fields read from an add. (`dataChange` is false in a checkpoint.)"""

_REMOVE_FIELDS = [
    pa.field("path", pa.string()),
    *_KEPT_OF_ANY,
    pa.field("deletionTimestamp", pa.int64()),
    pa.field("extendedFileMetadata", pa.bool_()),
]
_REMOVE = pa.field("remove", pa.struct(_REMOVE_FIELDS))
_COMMIT_FIELDS = [pa.field("add", pa.struct(ADD_FIELDS)), _REMOVE]
DATA_CHANGE = pa.field("dataChange", pa.bool_())
REMOVE = pa.field("remove", pa.struct([*_REMOVE_FIELDS, DATA_CHANGE]))
"""A tombstone in a checkpoint: without statistics and tags (section "Checkpoints")."""

Actions = dict[str, list[dict[str, Any]]]
"""Actions by kind, which is their column name."""


class SurvivingActions:
    """The actions of a log segment that newer ones do not replace. Commits are held in memory; the checkpoint before
    them is streamed."""

    def __init__(
        self, engine: Engine, root: str, segment: LogSegment, stats_type: pa.DataType, expired_before: int
    ) -> None:
        """`stats_type` is the type of parsed statistics in an older checkpoint. Tombstones older than `expired_before`,
        in milliseconds, are dropped."""
        self._engine, self._root, self._segment = engine, root, segment
        self._stats_type = stats_type
        self._expired_before = scalar_of(expired_before, pa.int64())
        newer, self._actions, self._keys = self._read_commits()
        checkpoint = segment.checkpoint
        self.state = newer if checkpoint is None else newer.over(read_checkpoint_state(engine, checkpoint))

    def adds_and_tombstones(self) -> Iterator[tuple[pa.StructArray, pa.StructArray]]:
        """Pairs of live files and tombstones. Adds have `ADD_FIELDS` and, if from a checkpoint, `stats_parsed` as
        stored; tombstones are ready to write."""
        for adds, removes in zip(self._actions[::2], self._actions[1::2], strict=True):
            yield adds, self._tombstones(removes)
        if self._segment.checkpoint is None:
            return
        parsed = pa.field("stats_parsed", self._stats_type, metadata={AS_STORED: b"true"})
        fields = [pa.field("add", pa.struct([*ADD_FIELDS, parsed])), _REMOVE]
        for adds, removes in read_checkpoint_files(self._engine, self._segment.checkpoint, fields, _BATCH_SIZE):
            yield self._not_replaced(adds), self._tombstones(self._not_replaced(removes))

    def _read_commits(self) -> tuple[TableState, list[pa.StructArray], pa.ChunkedArray]:
        """The state; adds and removes, alternating, newest first; and the keys of all of them."""
        files = commit_files(self._engine, self._root, reversed(self._segment.commits))
        state = TableState()
        actions: list[pa.StructArray] = []
        keys: list[pa.Array] = []
        numbers: list[npt.NDArray[np.int64]] = []
        for found in read_batches(self._engine, self._root, files, _COMMIT_FIELDS, state):
            for name in ("add", "remove"):
                actions.append(found[name])
                keys.append(keys_of(found[name], self._root))
                numbers.append(found.files[name])
        survives = first_occurrences(keys, numbers)
        kept = [a if mask.all() else a.filter(from_numpy(mask)) for a, mask in zip(actions, survives, strict=True)]
        return state, kept, pa.chunked_array([k for k in keys if len(k)], pa.string())

    def _not_replaced(self, actions: pa.StructArray) -> pa.StructArray:
        if not len(self._keys) or not len(actions):
            return actions
        replaced = pc.is_in(keys_of(actions, self._root), value_set=self._keys)
        return actions if not replaced.true_count else actions.filter(pc.invert(replaced))

    def _tombstones(self, removes: pa.StructArray) -> pa.StructArray:
        """The unexpired tombstones; a remove without a time has expired."""
        recent = pc.greater_equal(removes.field("deletionTimestamp"), self._expired_before)
        kept = removes.filter(recent, null_selection_behavior="drop")
        return make_struct({field.name: kept.field(field.name) for field in kept.type}, REMOVE.type, len(kept))


def make_struct(columns: dict[str, pa.Array], data_type: pa.DataType, length: int) -> pa.StructArray:
    """Actions of a checkpoint, with `dataChange` false."""
    columns["dataChange"] = pa.repeat(FALSE, length)
    return pa.StructArray.from_arrays([columns[field.name] for field in data_type], fields=list(data_type))


def state_actions(state: TableState, root: str, unused_before: int | None) -> Actions:
    """All actions but file actions: without domain tombstones, and with application transactions only if last used at
    or after `unused_before` or undated."""
    protocol, metadata = state.require(root)
    metadata = msgspec.structs.replace(metadata, format=metadata.format or Format())
    transactions = [t for t in state.transactions.values() if not _is_unused(t.last_updated, unused_before)]
    return {
        "protocol": [_cell(protocol)],
        "metaData": [_cell(metadata)],
        "txn": [_cell(transaction) for transaction in transactions],
        "domainMetadata": [_cell(domain) for domain in state.domains.values() if not domain.removed],
    }


def _is_unused(last_updated: int | None, unused_before: int | None) -> bool:
    return unused_before is not None and last_updated is not None and last_updated < unused_before


def _cell(action: msgspec.Struct) -> dict[str, Any]:
    raw = msgspec.to_builtins(action)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in raw.items()}


def action_batch(actions: Actions, schema: pa.Schema) -> pa.RecordBatch:
    """A row for each action, with a value only in the column of its kind."""
    length = sum(map(len, actions.values()))
    columns = {field.name: pa.nulls(length, field.type) for field in schema}
    start = 0
    for name, cells in actions.items():
        before, after = [None] * start, [None] * (length - start - len(cells))
        columns[name] = array_of([*before, *cells, *after], schema.field(name).type)
        start += len(cells)
    return pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)


def file_batch(actions: pa.StructArray, name: str, schema: pa.Schema) -> pa.RecordBatch:
    """A row for each file action, in the column `name`."""
    arrays = [actions if field.name == name else pa.nulls(len(actions), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
