"""The contents of a checkpoint: the surviving actions of a log segment, as columns.

Files are reconciled as in `replay`, but with all columns of their actions and with unexpired tombstones. Paths stay
as written in the log, so nothing is re-encoded. Add actions get the columns required by the table's properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.actions import DELETION_VECTOR, TEXT_MAP, Format, TableState
from lakeport.kernel.data_files import (
    conform_parsed,
    format_stats,
    parse_partition_values,
    partition_struct,
    stats_type,
    whole_stats_type,
)
from lakeport.kernel.definition import CHECKPOINT_STATS_AS_JSON, CHECKPOINT_STATS_AS_STRUCT, parse_clustering
from lakeport.kernel.engine import AS_STORED, Engine
from lakeport.kernel.expressions import Column
from lakeport.kernel.log import (
    LogSegment,
    commit_files,
    first_occurrences,
    keys_of,
    read_batches,
    read_checkpoint_files,
    read_checkpoint_state,
)
from lakeport.kernel.schema import arrow_type, leaves_of
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.values import FALSE, array_of, from_numpy, scalar_of, to_mask
from lakeport.kernel.write import stats_columns

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


class AddColumns:
    """Converts adds from the log to adds for a checkpoint of the snapshot."""

    def __init__(self, engine: Engine, snapshot: Snapshot, domains: Mapping[str, str]) -> None:
        """`domains` are the table's metadata domains, one of which may list clustering columns."""
        self._engine, self._snapshot = engine, snapshot
        as_json, as_struct = (
            choice.of(snapshot.properties) for choice in (CHECKPOINT_STATS_AS_JSON, CHECKPOINT_STATS_AS_STRUCT)
        )
        self._partition_fields = snapshot.partition_fields if as_struct else ()
        fields = [DATA_CHANGE, *(field for field in ADD_FIELDS if as_json or field.name != "stats")]
        fields += [pa.field("partitionValues_parsed", self._partitions_type)] if self._partition_fields else []
        fields += [pa.field("stats_parsed", _indexed_stats_type(snapshot, domains))] if as_struct else []
        self.type = pa.struct(fields)

    @property
    def _partitions_type(self) -> pa.DataType:
        names = self._snapshot.physical_partition_columns
        return pa.struct(
            [pa.field(name, arrow_type(f.type)) for name, f in zip(names, self._partition_fields, strict=True)]
        )

    def shape(self, adds: pa.StructArray) -> pa.StructArray:
        """Convert the adds of `SurvivingActions` to `type`."""
        columns = {field.name: adds.field(field.name) for field in adds.type}
        texts, parsed = columns["stats"], columns.pop("stats_parsed", None)
        columns["tags"] = _without_null_values(columns["tags"])
        for field in self.type:
            if field.name == "stats" and parsed is not None:
                columns["stats"] = _as_texts(texts, parsed, known_stats_type(self._snapshot))
            elif field.name == "stats_parsed":
                columns["stats_parsed"] = self._as_structs(texts, parsed, field.type)
            elif field.name == "partitionValues_parsed":
                columns["partitionValues_parsed"] = self._parse_partitions(adds.field("partitionValues"))
        return make_struct(columns, self.type, len(adds))

    def _as_structs(self, texts: pa.Array, parsed: pa.StructArray | None, target: pa.DataType) -> pa.StructArray:
        """Parsed statistics: the stored ones, or else from text; null if there are none."""
        known = conform_parsed(pa.nulls(len(texts), target) if parsed is None else parsed, target)
        unparsed = pc.and_(_lacks_statistics(known), texts.is_valid())
        if unparsed.true_count:
            fresh = self._engine.json.parse_json(texts, pa.schema(list(target))).to_struct_array()
            known = pc.if_else(unparsed, fresh, known)
        return pa.StructArray.from_arrays(known.flatten(), fields=list(target), mask=_lacks_statistics(known))

    def _parse_partitions(self, values: pa.MapArray) -> pa.StructArray:
        texts = partition_struct(values, self._snapshot.physical_partition_columns, len(values))
        columns = [
            parse_partition_values(texts.field(i), field, path=self._snapshot.root)
            for i, field in enumerate(self._partition_fields)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self._partitions_type))


def known_stats_type(snapshot: Snapshot) -> pa.DataType:
    """All statistics that an older checkpoint's `stats_parsed` may hold."""
    return whole_stats_type(snapshot.schema, snapshot.metadata.partition_columns, snapshot.mapping_mode)


def _indexed_stats_type(snapshot: Snapshot, domains: Mapping[str, str]) -> pa.DataType:
    """The statistics of the indexed columns."""
    mode, clustering = snapshot.mapping_mode, parse_clustering(domains, snapshot.root)
    partitions = snapshot.metadata.partition_columns
    indexed = set(stats_columns(snapshot.schema, partitions, mode, snapshot.properties, clustering))
    ways = [way for way in leaves_of(snapshot.schema) if tuple(f.physical_name(mode) for f in way) in indexed]
    return stats_type(snapshot.schema, [Column(tuple(f.name for f in way)) for way in ways], mode)


def _as_texts(texts: pa.Array, parsed: pa.StructArray, known_type: pa.DataType) -> pa.Array:
    """Statistics as text, formatted from the parsed ones if a checkpoint had only those."""
    if not texts.null_count or parsed.null_count == len(parsed):
        return texts
    known = conform_parsed(parsed, known_type)
    only_parsed = pc.and_(texts.is_null(), pc.invert(_lacks_statistics(known)))
    return pc.replace_with_mask(texts, only_parsed, format_stats(known.filter(only_parsed)))


def _lacks_statistics(parsed: pa.StructArray) -> pa.BooleanArray:
    """Where there are no statistics: all statistics include the number of records."""
    return parsed.field("numRecords").is_null()


def _without_null_values(maps: pa.MapArray) -> pa.MapArray:
    """Remove null values: an engine may fill in keys that only other rows have."""
    if not maps.items.null_count:
        return maps
    offsets = np.frombuffer(maps.buffers()[1], np.int32, len(maps) + 1, maps.offset * 4)
    valid = maps.items.is_valid()
    kept_before = np.concatenate(([0], np.cumsum(to_mask(valid)))).astype(np.int32)
    entries = pa.StructArray.from_arrays(
        [maps.keys.filter(valid), maps.items.filter(valid)], fields=[TEXT_MAP.key_field, TEXT_MAP.item_field]
    )
    validity = maps.is_valid().buffers()[1] if maps.null_count else None
    return pa.Array.from_buffers(
        TEXT_MAP, len(maps), [validity, pa.py_buffer(kept_before[offsets])], children=[entries]
    )
