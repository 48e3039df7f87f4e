"""`TableDefinition`: a table's protocol, metadata and schema, and how a transaction changes them together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import DomainMetadata, Format, Metadata, Protocol
from lakeport.kernel.definition.features import check_writable, column_mapping_mode, protocol_for
from lakeport.kernel.definition.properties import (
    COLUMN_MAPPING_MAX_ID,
    COLUMN_MAPPING_MODE,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    TIMESTAMP_ENABLEMENT,
    Configuration,
    check_properties,
    without_protocol_properties,
)
from lakeport.kernel.definition.row_tracking import with_materialised_names
from lakeport.kernel.definition.soundness import check_sound
from lakeport.kernel.schema import (
    StructType,
    assign_mapping,
    check_mode_change,
    format_schema,
    parse_schema,
    without_mapping,
)

CLUSTERING_DOMAIN = "delta.clustering"


@dataclass(frozen=True)
class TableDefinition:
    """A table without its files. `before` is the definition when the transaction began; None for a new table."""

    root: str
    protocol: Protocol
    metadata: Metadata
    before: TableDefinition | None = None
    clustering_columns: tuple[tuple[str, ...], ...] = ()
    """Physical paths."""

    @classmethod
    def of(
        cls, root: str, protocol: Protocol, metadata: Metadata, read_domains: Callable[[], Mapping[str, str]]
    ) -> TableDefinition:
        """The definition of a version with this protocol and metadata; domain metadata is read only if needed."""
        known = cls(root, protocol, metadata)
        if "clustering" in (protocol.writer_features or ()):
            known = replace(known, clustering_columns=parse_clustering(read_domains(), root))
        return replace(known, before=known)

    @cached_property
    def schema(self) -> StructType:
        return parse_schema(self.metadata.schema_string, path=self.root)

    @property
    def is_changed(self) -> bool:
        return bool(self.actions)

    @property
    def actions(self) -> list[Protocol | Metadata]:
        """The changed actions to commit."""
        if self.before is None:
            return [self.protocol, self.metadata]
        changed: list[Protocol | Metadata] = [self.protocol] if self.protocol != self.before.protocol else []
        return changed + ([self.metadata] if self.metadata != self.before.metadata else [])

    def with_properties(self, properties: Mapping[str, str], unset: Iterable[str] = ()) -> TableDefinition:
        """Set and unset properties, and upgrade the protocol as they need. Raises `ValueError`."""
        check_properties(properties)
        configuration: dict[str, str | None] = {**self.metadata.configuration, **properties}
        for name in unset:
            configuration.pop(name, None)
        return self._with(self.schema, configuration)

    def with_schema(self, schema: StructType) -> TableDefinition:
        """Replace the columns; under column mapping, new ones get ids and physical names. Raises `ValueError`."""
        return self._with(schema, self.metadata.configuration)

    def with_features(self, *features: str) -> TableDefinition:
        """Add these features to the protocol."""
        return replace(self, protocol=protocol_for(self.protocol, self.metadata, self.schema, features))

    def _with(self, schema: StructType, configuration: Mapping[str, str | None]) -> TableDefinition:
        old_mode = column_mapping_mode(self.protocol, self.metadata, self.root)
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
        return replace(self, protocol=protocol, metadata=metadata).checked(self.before)

    def clustered_by(self, columns: Sequence[str]) -> TableDefinition:
        """Cluster by columns; `clustering_domain` records them for other clients. Raises `ValueError`."""
        paths = [self.schema.resolve(self.schema.path_of(column)) for column in columns]
        mode = column_mapping_mode(self.protocol, self.metadata, self.root)
        physical = tuple(tuple(field.physical_name(mode) for field in path) for path in paths)
        clustered = replace(self.with_features("clustering", "domainMetadata"), clustering_columns=physical)
        return clustered.checked(self.before)

    def checked(self, known: TableDefinition | None) -> TableDefinition:
        """Return itself. Raises `ValueError` for an invalid definition, ignoring problems already in `known`, and
        `UnsupportedFeatureError` for one that this kernel cannot write."""
        check_sound(self, known)
        check_writable(self.protocol, self.metadata, self.schema, self.root)
        return self

    def as_of(self, version: int, timestamp: int | None) -> TableDefinition:
        """The definition in version `version`: in-commit timestamps that start with it are recorded as such."""
        enabled = ENABLE_IN_COMMIT_TIMESTAMPS.of(self.metadata.configuration)
        if self.before is None or not enabled or ENABLE_IN_COMMIT_TIMESTAMPS.of(self.before.metadata.configuration):
            return self
        since = dict(zip(TIMESTAMP_ENABLEMENT, (str(version), str(timestamp)), strict=True))
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
    """Define a new table; with `before`, one that replaces another, none of whose files remain.

    The schema's ids and physical names belong to another table and are dropped. Raises `ValueError` for an invalid
    definition."""
    protocol = before.protocol if before is not None else Protocol(min_reader_version=1, min_writer_version=2)
    if not schema.fields:
        raise ValueError("a table needs at least one column")
    partitions = tuple(schema.resolve((column,))[0].name for column in partition_columns)
    check_properties(properties or {})
    metadata = Metadata(
        id=before.metadata.id if before is not None else str(uuid.uuid4()),
        name=name,
        description=description,
        format=Format(),
        schema_string=format_schema(without_mapping(schema)),
        partition_columns=partitions,
        created_time=created,
        configuration=with_history(properties or {}, {} if before is None else before.metadata.configuration),
    )
    unmapped = TableDefinition(root, protocol, metadata)
    return replace(unmapped.with_properties({}), before=before)


def with_history(configuration: Configuration, before: Configuration) -> dict[str, str | None]:
    """The new properties of an existing table, with those that its log so far relies on."""
    kept = dict(configuration)
    if ENABLE_IN_COMMIT_TIMESTAMPS.of(configuration) and ENABLE_IN_COMMIT_TIMESTAMPS.of(before):
        # Timestamps may have been off in between.
        kept = {name: value for name, value in kept.items() if name not in TIMESTAMP_ENABLEMENT}
        kept |= {name: before[name] for name in TIMESTAMP_ENABLEMENT if name in before}
    highest = COLUMN_MAPPING_MAX_ID.of(before)
    if highest > COLUMN_MAPPING_MAX_ID.of(configuration):  # ids are never reused
        kept[COLUMN_MAPPING_MAX_ID.name] = str(highest)
    if ENABLE_ROW_TRACKING.of(configuration):
        columns = (ROW_ID_COLUMN.name, ROW_COMMIT_VERSION_COLUMN.name)
        kept = {name: before[name] for name in columns if name in before} | kept
    return kept


def clustering_domain(columns: Sequence[Sequence[str]]) -> DomainMetadata:
    """The metadata domain of a table clustered by columns, given as physical paths."""
    document = {"clusteringColumns": columns, "domainName": CLUSTERING_DOMAIN}
    return DomainMetadata(CLUSTERING_DOMAIN, msgspec.json.encode(document).decode())


class _Clustering(msgspec.Struct, rename="camel"):
    clustering_columns: tuple[tuple[str, ...] | str, ...] = ()


def parse_clustering(domains: Mapping[str, str], path: str) -> tuple[tuple[str, ...], ...]:
    """The physical paths of the table's clustering columns."""
    if (configuration := domains.get(CLUSTERING_DOMAIN)) is None:
        return ()
    try:
        columns = msgspec.json.decode(configuration, type=_Clustering).clustering_columns
        return tuple((column,) if isinstance(column, str) else column for column in columns)
    except msgspec.MsgspecError as error:
        raise CorruptTableError(f"the domain {CLUSTERING_DOMAIN} is not valid: {error}", path=path) from error
