"""Writes Delta tables for tests straight through an engine's storage, and reads them with the kernel.

    table = TableBuilder(engine, root, struct(id="long", name="string"), partition_by=["day"])
    table.create(); add = table.add({"id": [1, 2]}, {"day": "2026-01-01"})
    table.commit(add); table.checkpoint(); rows(table.snapshot())

The builder remembers its commits, so that it can write checkpoints and compactions of them. It checks nothing: tests
may write invalid tables.
"""

from __future__ import annotations

import io
import json
import struct as binary
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.kernel.actions import TEXT_MAP
from lakeport.kernel.data_files import physical_field
from lakeport.kernel.deletion_vectors import encode_deletion_vector, encode_inline, encode_z85
from lakeport.kernel.engine import Engine, FileSplit
from lakeport.kernel.expressions import Expression
from lakeport.kernel.scan import Scan, transform_physical_data
from lakeport.kernel.schema import DataType, PrimitiveType, StructField, StructType, format_schema
from lakeport.kernel.snapshot import Snapshot, Table

Action = dict[str, Any]
_STATS_ENCODER = msgspec.json.Encoder(decimal_format="number")


def struct(*fields: StructField, **types: str | DataType) -> StructType:
    """A schema from fields as they are, and from names with their types."""
    named = (StructField(n, PrimitiveType(t) if isinstance(t, str) else t) for n, t in types.items())
    return StructType((*fields, *named))


def mapped(schema: StructType, ids: Iterator[int] | None = None) -> StructType:
    """The schema with column mapping: physical names `col-N` and ids, nested fields included."""
    ids = ids or iter(range(1, 1000))
    fields = []
    for field in schema:
        number = next(ids)
        inner = mapped(field.type, ids) if isinstance(field.type, StructType) else field.type
        extra = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        fields.append(StructField(field.name, inner, field.nullable, {**field.metadata, **extra}))
    return StructType(tuple(fields))


def protocol(reader: int = 1, writer: int = 2, features: Sequence[str] = (), writer_only: Sequence[str] = ()) -> Action:
    """A protocol action; with `features`, which are for readers and writers, it is (3, 7)."""
    if not features and not writer_only:
        return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}}
    body: Action = {"minReaderVersion": 3 if features else reader, "minWriterVersion": 7}
    body |= {"readerFeatures": list(features)} if features else {}
    return {"protocol": body | {"writerFeatures": [*features, *writer_only]}}


class TableBuilder:
    """A Delta table, written action by action; nothing is checked."""

    def __init__(
        self,
        engine: Engine,
        root: str,
        schema: StructType,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        protocol: Action = protocol(),  # noqa: B008  # never changed
    ) -> None:
        self.engine, self.root, self.schema = engine, engine.storage.resolve(root), schema
        self.partition_by, self.properties, self.protocol = tuple(partition_by), dict(properties or {}), protocol
        self.versions: dict[int, list[Action]] = {}

    @property
    def mode(self) -> str:
        return self.properties.get("delta.columnMapping.mode", "none")

    @property
    def version(self) -> int:
        return max(self.versions, default=-1)

    @property
    def metadata(self) -> Action:
        return {
            "metaData": {
                "id": "11111111-2222-3333-4444-555555555555",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": format_schema(self.schema),
                "partitionColumns": list(self.partition_by),
                "configuration": self.properties,
            }
        }

    def log_file(self, name: str) -> str:
        return f"{self.root}/_delta_log/{name}"

    def write(self, path: str, data: bytes | str) -> int:
        data = data.encode() if isinstance(data, str) else data
        self.engine.storage.write(path, data, overwrite=True)
        return len(data)

    def create(self, *actions: Action) -> TableBuilder:
        return self.commit(self.protocol, self.metadata, *actions)

    def commit(self, *actions: Action, version: int | None = None) -> TableBuilder:
        """A commit as the next version, or as another one."""
        version = self.version + 1 if version is None else version
        self.versions[version] = list(actions)
        self.write(self.log_file(f"{version:020d}.json"), _lines(actions))
        return self

    # Files

    def physical_schema(self) -> pa.Schema:
        """The schema of data files, with the field ids that column mapping wants in them."""
        fields = [f for f in self.schema if f.name not in self.partition_by]
        return pa.schema([physical_field(f, "id" if self.mode != "none" else "none") for f in fields])

    def add(
        self,
        data: Mapping[str, Sequence[Any]] | pa.Table,
        partition: Mapping[str, str | None] | None = None,
        *,
        name: str | None = None,
        path: str | None = None,
        stats: bool | str | None = True,
        row_group_size: int | None = None,
        tight: bool | None = None,
        parquet: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Action:
        """Write a data file and return its add. `name` is its path in storage, `path` its path in the log; `parquet`
        has options of pyarrow's writer."""
        table = data if isinstance(data, pa.Table) else to_table(data, self.physical_schema())
        name = name or f"part-{uuid.uuid4()}.parquet"
        size = self.write(f"{self.root}/{name}", parquet_bytes(table, row_group_size, **(parquet or {})))
        if stats is True:
            stats = _STATS_ENCODER.encode(spark_stats(table, tight)).decode()
        body = {"path": path or name, "partitionValues": dict(partition or {}), "size": size, "modificationTime": 0}
        body |= {"dataChange": True} | ({"stats": stats} if stats else {})
        return {"add": body | more}

    def cdc(
        self,
        data: Mapping[str, Sequence[Any]],
        change_types: Sequence[str],
        partition: Mapping[str, str | None] | None = None,
    ) -> Action:
        """Writes a file of changes and gives its action."""
        rows = to_table(data, self.physical_schema()).append_column("_change_type", pa.array(change_types, pa.string()))
        name = f"_change_data/cdc-{uuid.uuid4()}.parquet"
        size = self.write(f"{self.root}/{name}", parquet_bytes(rows))
        return {"cdc": {"path": name, "partitionValues": dict(partition or {}), "size": size, "dataChange": False}}

    def delete(self, add: Action, positions: Iterable[int], kind: str = "u") -> tuple[Action, Action]:
        """The remove and the add that replace a file's deletion vector."""
        return remove(add), {"add": add["add"] | {"deletionVector": self.deletion_vector(positions, kind)}}

    def deletion_vector(self, positions: Iterable[int], kind: str = "u", offset: int = 1) -> Action:
        payload = encode_deletion_vector(np.array(list(positions), dtype=np.uint64))
        numbers = {"sizeInBytes": len(payload), "cardinality": len(set(positions))}
        if kind == "i":
            return {"storageType": "i", "pathOrInlineDv": encode_inline(payload), **numbers}
        name = uuid.uuid4()
        path = f"{self.root}/deletion_vector_{name}.bin"
        frame = binary.pack(">I", len(payload)) + payload + binary.pack(">I", zlib.crc32(payload))
        self.write(path, b"\x01" + b"?" * (offset - 1) + frame)
        where = path if kind == "p" else encode_z85(name.bytes)
        return {"storageType": kind, "pathOrInlineDv": where, "offset": offset, **numbers}

    # Checkpoints, hints, compactions

    def live(self, version: int) -> list[Action]:
        """The actions of a checkpoint of `version`, by a replay as simple as can be."""
        newest: dict[tuple[str, ...], Action] = {}
        for number in sorted(v for v in self.versions if v <= version):
            for action in self.versions[number]:
                if (key := _key(action)) is not None:
                    newest.pop(key, None)
                    newest[key] = action
        return [a for a in newest.values() if "remove" not in a and not a.get("domainMetadata", {}).get("removed")]

    def checkpoint(
        self,
        version: int | None = None,
        *,
        form: str = "classic",
        parts: int = 2,
        parsed_stats: bool = False,
        hint: bool = True,
    ) -> list[str]:
        """Writes a checkpoint and gives its files.

        `form`: classic, parts, v2-json, v2-parquet, v2-classic (a classic name), each of the last three with
        `-sidecars` if file actions are to be in sidecars."""
        version = self.version if version is None else version
        actions = self.live(version)
        number = f"{version:020d}"
        if form == "parts":
            names = [f"{number}.checkpoint.{i + 1:010d}.{parts:010d}.parquet" for i in range(parts)]
            contents = [actions[i::parts] for i in range(parts)]
        else:
            kind = form.removeprefix("v2-").removesuffix("-sidecars")
            middle = "" if kind == "classic" else f".{uuid.uuid4()}"
            names = [f"{number}.checkpoint{middle}.{'json' if kind == 'json' else 'parquet'}"]
            if form.startswith("v2"):
                actions.insert(0, {"checkpointMetadata": {"version": version}})
            if form.endswith("-sidecars"):
                actions = self._to_sidecars(actions, parts, parsed_stats)
            contents = [actions]
        for name, content in zip(names, contents, strict=True):
            data = _lines(content) if name.endswith(".json") else self.checkpoint_bytes(content, parsed_stats)
            self.write(self.log_file(name), data)
        if hint:
            self.hint({"version": version, "size": len(actions)} | ({"parts": parts} if form == "parts" else {}))
        return names

    def _to_sidecars(self, actions: list[Action], count: int, parsed_stats: bool) -> list[Action]:
        adds = [a for a in actions if "add" in a]
        kept = [a for a in actions if "add" not in a]
        for i in range(count):
            name = f"{uuid.uuid4()}.parquet"
            data = self.checkpoint_bytes(adds[i::count], parsed_stats)
            size = self.write(self.log_file(f"_sidecars/{name}"), data)
            kept.append({"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": 0}})
        return kept

    def checkpoint_bytes(self, actions: list[Action], parsed_stats: bool = False) -> bytes:
        schema = self._checkpoint_schema(parsed_stats)
        parsed = schema.field("add").type.field("stats_parsed").type if parsed_stats else None
        rows = [{f.name: _cell(action.get(f.name), parsed) for f in schema} for action in actions]
        return parquet_bytes(pa.Table.from_pylist(rows, schema=schema))

    def _checkpoint_schema(self, parsed_stats: bool) -> pa.Schema:
        vector = [("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32())]
        vector += [("sizeInBytes", pa.int32()), ("cardinality", pa.int64())]
        add = [("path", pa.string()), ("partitionValues", TEXT_MAP), ("size", pa.int64())]
        add += [("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("deletionVector", pa.struct(vector))]
        add += [("baseRowId", pa.int64()), ("defaultRowCommitVersion", pa.int64())]
        add += [("stats_parsed", _parsed_type(self.physical_schema()))] if parsed_stats else [("stats", pa.string())]
        texts = pa.list_(pa.string())
        feature_lists = [("readerFeatures", texts), ("writerFeatures", texts)]
        versions = [("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()), *feature_lists]
        metadata = [("id", pa.string()), ("format", pa.struct([("provider", pa.string()), ("options", TEXT_MAP)]))]
        metadata += [("schemaString", pa.string()), ("partitionColumns", texts), ("configuration", TEXT_MAP)]
        domain = [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
        sidecar = [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]
        kinds = {"protocol": versions, "metaData": metadata, "add": add, "domainMetadata": domain, "sidecar": sidecar}
        kinds |= {"txn": [("appId", pa.string()), ("version", pa.int64())]}
        kinds |= {"checkpointMetadata": [("version", pa.int64())]}
        return pa.schema([(name, pa.struct(fields)) for name, fields in kinds.items()])

    def hint(self, content: Action | str) -> None:
        self.write(self.log_file("_last_checkpoint"), content if isinstance(content, str) else json.dumps(content))

    def compact(self, first: int, last: int) -> None:
        """A log compaction of the versions `first` … `last`."""
        newest: dict[tuple[str, ...], Action] = {}
        for number in range(first, last + 1):
            newest |= {key: action for action in self.versions[number] if (key := _key(action)) is not None}
        self.write(self.log_file(f"{first:020d}.{last:020d}.compacted.json"), _lines(newest.values()))

    # Reading

    def table(self) -> Table:
        return Table.for_path(self.engine, self.root)

    def snapshot(self, version: int | None = None) -> Snapshot:
        return self.table().latest_snapshot() if version is None else self.table().snapshot_at_version(version)


def remove(add: Action) -> Action:
    """The action that removes the file of `add`."""
    body = add["add"]
    vector = {"deletionVector": body["deletionVector"]} if "deletionVector" in body else {}
    return {"remove": {"path": body["path"], "dataChange": True, "deletionTimestamp": 0, **vector}}


def _key(action: Action) -> tuple[str, ...] | None:
    """A later action replaces an earlier one with the same key. None for actions that checkpoints do not hold."""
    kind = next(iter(action))
    body = action[kind]
    if kind in ("add", "remove"):
        vector = body.get("deletionVector") or {}
        return ("file", body["path"], *(str(vector.get(k)) for k in ("storageType", "pathOrInlineDv", "offset")))
    if kind in ("protocol", "metaData"):
        return (kind,)
    return (kind, body["appId"] if kind == "txn" else body["domain"]) if kind in ("txn", "domainMetadata") else None


def _lines(actions: Iterable[Action]) -> bytes:
    return "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions).encode()


def _cell(body: Action | None, parsed: pa.DataType | None) -> Action | None:
    if body is None:
        return None
    maps = ("partitionValues", "configuration", "options")
    cell: Action = {k: list(v.items()) if k in maps and isinstance(v, dict) else v for k, v in body.items()}
    if "format" in cell:
        cell["format"] = _cell(cell["format"], None)
    if parsed is not None and (text := cell.pop("stats", None)):
        cell["stats_parsed"] = _typed_stats(json.loads(text, parse_float=Decimal), parsed)
    return cell


def _typed_stats(value: Any, kind: pa.DataType) -> Any:
    """JSON statistics as values of their types; leaves out NaN and infinities, as unknown."""
    if pa.types.is_struct(kind):
        return {f.name: _typed_stats(value[f.name], f.type) for f in kind if value and f.name in value}
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    if pa.types.is_decimal(kind):
        return Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=50))
    if pa.types.is_floating(kind):
        return None if isinstance(value, str) else float(value)
    return value


def _parsed_type(schema: pa.Schema) -> pa.DataType:
    def tree(fields: Iterable[pa.Field], leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
        return pa.struct(
            [pa.field(f.name, tree(f.type, leaf) if pa.types.is_struct(f.type) else leaf(f.type)) for f in fields]
        )

    bounds, counts = tree(schema, lambda t: t), tree(schema, lambda _: pa.int64())
    fields = [("numRecords", pa.int64()), ("tightBounds", pa.bool_()), ("minValues", bounds), ("maxValues", bounds)]
    return pa.struct([*fields, ("nullCount", counts)])


def to_table(data: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """The columns in `data` as a table."""
    fields = [f for f in schema if f.name in data]
    return pa.table([pa.array(data[f.name], f.type) for f in fields], schema=pa.schema(fields))


def parquet_bytes(table: pa.Table, row_group_size: int | None = None, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=row_group_size, **options)
    return sink.getvalue()


def spark_stats(table: pa.Table, tight: bool | None = None) -> Action:
    """The statistics that Spark would write: strings cut to 32 characters, times to milliseconds."""
    stats: Action = {"numRecords": table.num_rows}
    stats |= {} if tight is None else {"tightBounds": tight}
    trees: dict[str, Action] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for field in table.schema:
        _column_stats(field, table.column(field.name).to_pylist(), trees)
    return stats | {name: tree for name, tree in trees.items() if tree}


def _column_stats(field: pa.Field, values: list[Any], trees: dict[str, Action]) -> None:
    if pa.types.is_struct(field.type):
        inner: dict[str, Action] = {name: {} for name in trees}
        for child in field.type:
            _column_stats(child, [None if v is None else v[child.name] for v in values], inner)
        for name, tree in trees.items():
            tree |= {field.name: inner[name]} if inner[name] else {}
        return
    known = [v for v in values if v is not None]
    trees["nullCount"][field.name] = len(values) - len(known)
    ordered = not pa.types.is_nested(field.type) and not pa.types.is_binary(field.type)
    if known and ordered and not pa.types.is_boolean(field.type):
        trees["minValues"][field.name] = _bound(min(known, key=_spark_order), is_max=False)
        trees["maxValues"][field.name] = _bound(max(known, key=_spark_order), is_max=True)


def _spark_order(value: Any) -> Any:
    """Spark's order: NaN is the greatest number; text is ordered by its bytes."""
    if isinstance(value, float):
        return (value != value, value)
    return value.encode() if isinstance(value, str) else value


def _bound(value: Any, is_max: bool) -> Any:
    match value:
        case str() if len(value) > 32:
            return value[:32] + ("\U0010ffff" if is_max else "")
        case float() if value != value or value in (float("inf"), float("-inf")):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        case datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return text + "Z" if value.tzinfo else text
        case date():
            return value.isoformat()
    return value


def read(
    snapshot: Snapshot, predicate: Expression | None = None, *, batch_size: int | None = None, scan: Scan | None = None
) -> pa.Table:
    """The rows of a snapshot or a scan, in the order of the scan files, filtered exactly."""
    builder = snapshot.scan_builder()
    scan = scan or (builder.with_filter(predicate) if predicate is not None else builder).build()
    batches = list(scan_batches(snapshot.engine, scan, batch_size))
    return pa.Table.from_batches(batches, scan.scan_state.arrow_schema)


def scan_batches(engine: Engine, scan: Scan, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
    state = scan.scan_state
    select = (
        engine.expressions.predicate_evaluator(state.arrow_schema, scan.filter) if scan.filter is not None else None
    )
    for file in scan.files():
        physical = engine.parquet.read_parquet_files(
            [FileSplit(file.status)], state.physical_schema(file), scan.physical_filter, batch_size
        )
        for batch in transform_physical_data(engine, state, file, physical):
            selection = batch.selection if select is None else select(batch.data, batch.selection)
            yield batch.data if selection is None else batch.data.filter(selection)


def rows(snapshot: Snapshot, predicate: Expression | None = None, **options: Any) -> list[tuple[Any, ...]]:
    """The rows as tuples, in an order that depends on nothing else."""
    table = read(snapshot, predicate, **options)
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)
