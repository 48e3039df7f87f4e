"""`TableDefinition`: protocol, metadata and schema of a table, and how a transaction changes them together."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import DomainMetadata, Format, Metadata, Protocol
from lakeport.kernel.column_mapping import assign_mapping, check_mode_change
from lakeport.kernel.row_tracking import with_materialised_names
from lakeport.kernel.schema import PrimitiveType, StructType, format_schema, parse_schema, types_in
from lakeport.kernel.table_properties import (
    COLUMN_MAPPING_MAX_ID,
    COLUMN_MAPPING_MODE,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    check_properties,
    without_protocol_properties,
)
from lakeport.kernel.writer_features import check_writable, protocol_for

CLUSTERING_DOMAIN = "delta.clustering"
_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")
_NOT_FOR_PARTITIONS = ("variant", "void")


@dataclass(frozen=True)
class TableDefinition:
    """What a table is, apart from its files. `before` is what it was when the transaction began; None if it is new."""

    root: str
    protocol: Protocol
    metadata: Metadata
    before: TableDefinition | None = None
    clustering_columns: tuple[tuple[str, ...], ...] = ()
    """Physical paths."""

    @cached_property
    def schema(self) -> StructType:
        return parse_schema(self.metadata.schema_string, path=self.root)

    @property
    def is_changed(self) -> bool:
        return bool(self.actions)

    @property
    def actions(self) -> list[Protocol | Metadata]:
        """What a commit has to say of it."""
        if self.before is None:
            return [self.protocol, self.metadata]
        changed: list[Protocol | Metadata] = [self.protocol] if self.protocol != self.before.protocol else []
        return changed + ([self.metadata] if self.metadata != self.before.metadata else [])

    def with_properties(self, properties: Mapping[str, str], unset: Iterable[str] = ()) -> TableDefinition:
        """With properties set and others taken away, and the protocol that they need. Raises `ValueError`."""
        check_properties(properties)
        configuration: dict[str, str | None] = {**self.metadata.configuration, **properties}
        for name in unset:
            configuration.pop(name, None)
        return self._with(self.schema, configuration)

    def with_schema(self, schema: StructType) -> TableDefinition:
        """With other columns; new ones get ids and physical names where columns are mapped. Raises `ValueError`."""
        return self._with(schema, self.metadata.configuration)

    def with_features(self, *features: str) -> TableDefinition:
        """With a protocol that has these features too."""
        return replace(self, protocol=protocol_for(self.protocol, self.metadata, self.schema, features))

    def _with(self, schema: StructType, configuration: Mapping[str, str | None]) -> TableDefinition:
        old_mode = COLUMN_MAPPING_MODE.of(self.metadata.configuration)
        mode = COLUMN_MAPPING_MODE.of(configuration)
        if self.before is not None:
            check_mode_change(old_mode, mode)
        configuration = with_materialised_names(configuration)
        if mode != "none":
            highest = COLUMN_MAPPING_MAX_ID.of(configuration)
            upgraded = self.before is not None and old_mode == "none"
            schema, highest = assign_mapping(schema, mode, highest, keep_names=upgraded)
            configuration[COLUMN_MAPPING_MAX_ID.name] = str(highest)
        metadata = msgspec.structs.replace(
            self.metadata, schema_string=format_schema(schema), configuration=configuration
        )
        protocol = protocol_for(self.protocol, metadata, schema)
        metadata = msgspec.structs.replace(metadata, configuration=without_protocol_properties(configuration))
        _check_columns(schema, metadata.partition_columns, mode)
        check_writable(protocol, metadata, schema, self.root)
        return replace(self, protocol=protocol, metadata=metadata)

    def as_of(self, version: int, timestamp: int | None) -> TableDefinition:
        """As version `version` has it: in-commit timestamps that begin with it are recorded as beginning with it."""
        enabled = ENABLE_IN_COMMIT_TIMESTAMPS.of(self.metadata.configuration)
        if self.before is None or not enabled or ENABLE_IN_COMMIT_TIMESTAMPS.of(self.before.metadata.configuration):
            return self
        since = {
            "delta.inCommitTimestampEnablementVersion": str(version),
            "delta.inCommitTimestampEnablementTimestamp": str(timestamp),
        }
        configuration = {**self.metadata.configuration, **since}
        return replace(self, metadata=msgspec.structs.replace(self.metadata, configuration=configuration))


def define_table(
    root: str,
    schema: StructType,
    partition_columns: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    created: int,
    before: TableDefinition | None = None,
) -> TableDefinition:
    """A new table; with `before`, one that takes the place of another. Raises `ValueError` for what no table can be."""
    protocol = before.protocol if before is not None else Protocol(min_reader_version=1, min_writer_version=2)
    if not schema.fields:
        raise ValueError("a table has at least one column")
    partitions = tuple(schema.resolve((column,))[0].name for column in partition_columns)
    metadata = Metadata(
        id=before.metadata.id if before is not None else str(uuid.uuid4()),
        name=name,
        description=description,
        format=Format(),
        schema_string=format_schema(schema),
        partition_columns=partitions,
        created_time=created,
    )
    unmapped = TableDefinition(root, protocol, metadata)
    return replace(unmapped.with_properties(properties or {}), before=before)


def clustering_domain(schema: StructType, columns: Sequence[str], mapping_mode: str) -> DomainMetadata:
    """The metadata domain of a table that is clustered by columns. Raises `UnknownColumnError`."""
    paths = [schema.resolve(schema.path_of(column)) for column in columns]
    physical = [[f.physical_name(mapping_mode) for f in path] for path in paths]
    document = {"clusteringColumns": physical, "domainName": CLUSTERING_DOMAIN}
    return DomainMetadata(CLUSTERING_DOMAIN, msgspec.json.encode(document).decode())


class _Clustering(msgspec.Struct, rename="camel"):
    clustering_columns: tuple[tuple[str, ...] | str, ...] = ()


def parse_clustering(domains: Mapping[str, str], path: str) -> tuple[tuple[str, ...], ...]:
    """The physical paths of the columns that a table is clustered by."""
    if (configuration := domains.get(CLUSTERING_DOMAIN)) is None:
        return ()
    try:
        columns = msgspec.json.decode(configuration, type=_Clustering).clustering_columns
        return tuple((column,) if isinstance(column, str) else column for column in columns)
    except msgspec.MsgspecError as error:
        raise CorruptTableError(f"the domain {CLUSTERING_DOMAIN} is not valid: {error}", path=path) from error


def _check_columns(schema: StructType, partition_columns: Sequence[str], mapping_mode: str) -> None:
    _check_names(schema, mapping_mode)
    for name in partition_columns:
        kind = schema.resolve((name,))[0].type
        if not isinstance(kind, PrimitiveType) or kind.name in _NOT_FOR_PARTITIONS:
            raise ValueError(f"the column {name!r} cannot be a partition column: it is nested, a variant or void")
    if twice := sorted({name for name in partition_columns if partition_columns.count(name) > 1}):
        raise ValueError(f"the partition column {twice[0]!r} is named twice")
    if len(partition_columns) == len(schema.fields):
        raise ValueError("all columns are partition columns: a table needs at least one other")


def _check_names(schema: StructType, mapping_mode: str) -> None:
    for struct in types_in(schema):
        seen: dict[str, str] = {}
        for name in struct.names if isinstance(struct, StructType) else ():
            if not name:
                raise ValueError("a column has no name")
            if name.lower() in seen:
                raise ValueError(f"two columns are called {seen[name.lower()]!r} and {name!r}: rename one of them")
            seen[name.lower()] = name
            if mapping_mode == "none" and not _NOT_IN_NAMES.isdisjoint(name):
                raise ValueError(
                    f"the column name {name!r} has one of the characters ' ,;{{}}()=', a tab or a new line: rename it, "
                    "or set delta.columnMapping.mode to name"
                )
