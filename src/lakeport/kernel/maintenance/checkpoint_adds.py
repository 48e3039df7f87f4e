"""A checkpoint's add actions, with the columns required by the table's properties."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.actions import TEXT_MAP
from lakeport.kernel.data_files import (
    conform_parsed,
    format_stats,
    parse_partition_values,
    partition_struct,
    stats_type,
    whole_stats_type,
)
from lakeport.kernel.definition import CHECKPOINT_STATS_AS_JSON, CHECKPOINT_STATS_AS_STRUCT, parse_clustering
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Column
from lakeport.kernel.maintenance.checkpoint_actions import ADD_FIELDS, DATA_CHANGE, make_struct
from lakeport.kernel.schema import arrow_type, leaves_of
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.values import to_mask
from lakeport.kernel.write import stats_columns


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
