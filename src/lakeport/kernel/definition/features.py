"""Table features: those this kernel reads and writes, and the protocol that a table's definition needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lakeport.errors import CorruptTableError, UnsupportedFeatureError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.definition.properties import (
    APPEND_ONLY,
    CHECKPOINT_POLICY,
    COLUMN_MAPPING_MODE,
    ENABLE_CHANGE_DATA_FEED,
    ENABLE_DELETION_VECTORS,
    ENABLE_ICEBERG_COMPAT_V1,
    ENABLE_ICEBERG_COMPAT_V2,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    ENABLE_TYPE_WIDENING,
    ENABLE_VARIANT_SHREDDING,
    MIN_READER_VERSION,
    MIN_WRITER_VERSION,
    Configuration,
    constraints_in,
    features_in,
)
from lakeport.kernel.schema import (
    DEFAULT,
    GENERATION_EXPRESSION,
    INVARIANTS,
    TYPE_CHANGES,
    PrimitiveType,
    StructType,
    fields_in,
    parse_schema,
    types_in,
    widens,
)

CATALOG_MANAGED = frozenset({"catalogManaged", "catalogOwned-preview"})
READER_FEATURES = CATALOG_MANAGED | {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding",
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
}
"""A name added here also becomes writable (`WRITER_FEATURES`), and clients ask servers for tables with it."""
MAX_READER_VERSION = 3


def check_readable(protocol: Protocol, path: str) -> None:
    """Raises `UnsupportedFeatureError` naming the missing features."""
    if protocol.min_reader_version > MAX_READER_VERSION:
        raise UnsupportedFeatureError(
            f"the table needs reader version {protocol.min_reader_version}, but this version of Lakeport reads up to "
            f"{MAX_READER_VERSION}; upgrade Lakeport [{path}]",
            features=[f"reader version {protocol.min_reader_version}"],
        )
    if protocol.min_reader_version < 1:
        raise CorruptTableError(f"{protocol.min_reader_version} is not a reader version", path=path)
    needed = protocol.reader_features or () if protocol.min_reader_version >= 3 else ()
    if unknown := sorted(set(needed) - READER_FEATURES):
        raise UnsupportedFeatureError(
            f"the table needs the reader feature{'s' * (len(unknown) > 1)} {', '.join(unknown)}, which this version of "
            f"Lakeport does not read; upgrade Lakeport [{path}]",
            features=unknown,
        )


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features needed to read a table's files, whether listed for readers or only for writers."""
    listed = protocol.reader_features or () if protocol.min_reader_version >= 3 else ()
    return frozenset({*listed, *filter(protocol.has_feature, READER_FEATURES)})


def is_catalog_managed(protocol: Protocol) -> bool:
    return any(protocol.has_feature(name) for name in CATALOG_MANAGED)


def column_mapping_mode(protocol: Protocol, metadata: Metadata, path: str) -> str:
    """`none`, `name` or `id`. Raises `UnsupportedFeatureError` if the property sets a mode, the protocol lacks the
    feature, and columns have two names: readers disagree on which one the files use."""
    text = metadata.configuration.get(COLUMN_MAPPING_MODE.name) or "none"
    if text == "none":
        return text
    if protocol.min_reader_version != 2 and not protocol.has_feature("columnMapping"):
        _check_one_name(text, metadata, path)
        return "none"
    return COLUMN_MAPPING_MODE.of(metadata.configuration, path=path)


def _check_one_name(mode: str, metadata: Metadata, path: str) -> None:
    for field in fields_in(parse_schema(metadata.schema_string, path=path)):
        if (physical := field.physical_name("name")) != field.name:
            raise UnsupportedFeatureError(
                f"delta.columnMapping.mode is {mode!r}, but the protocol does not list columnMapping: files may call "
                f"the column {field.name!r} or {physical!r}; add the feature to the protocol, or "
                f"remove the property [{path}]",
                features=["columnMapping"],
            )


def check_type_changes(schema: StructType, path: str) -> None:
    """Raises `UnsupportedFeatureError` for a recorded type change unknown to readers."""
    for field in fields_in(schema):
        for change in field.metadata.get(TYPE_CHANGES) or ():
            if not isinstance(change, dict):
                raise CorruptTableError(f"{TYPE_CHANGES} of the column {field.name!r} is not valid", path=path)
            before, after = str(change.get("fromType")), str(change.get("toType"))
            if not widens(before, after):
                raise UnsupportedFeatureError(
                    f"the column {field.name!r} was changed from {before} to {after}: this version of Lakeport cannot "
                    f"read its older files; upgrade Lakeport [{path}]",
                    features=[f"type change {before} to {after}"],
                )


MAX_WRITER_VERSION = 7
NEW_TABLE = Protocol(min_reader_version=1, min_writer_version=2)

_LEGACY = {
    "appendOnly": 2,
    "invariants": 2,
    "checkConstraints": 3,
    "changeDataFeed": 4,
    "generatedColumns": 4,
    "columnMapping": 5,
    "identityColumns": 6,
}
"""The writer version that implies a feature (section "Writer Version Requirements")."""

_NOT_USED = frozenset({"identityColumns", "icebergCompatV1", "icebergCompatV2"})
"""Features that Lakeport cannot write. A table may list them if it does not use them."""

WRITER_FEATURES = (
    (READER_FEATURES - CATALOG_MANAGED)
    | _NOT_USED
    | {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        "domainMetadata",
        "generatedColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
    }
)

_REQUIRES = {
    "clustering": {"domainMetadata"},
    "icebergCompatV1": {"columnMapping"},
    "icebergCompatV2": {"columnMapping"},
    "rowTracking": {"domainMetadata"},
    "variantShredding": {"variantType"},
}
_BY_PROPERTY: dict[str, Callable[[Configuration], bool]] = {
    "appendOnly": APPEND_ONLY.of,
    "changeDataFeed": ENABLE_CHANGE_DATA_FEED.of,
    "checkConstraints": lambda configuration: bool(constraints_in(configuration)),
    "columnMapping": lambda configuration: COLUMN_MAPPING_MODE.of(configuration) != "none",
    "deletionVectors": ENABLE_DELETION_VECTORS.of,
    "icebergCompatV1": ENABLE_ICEBERG_COMPAT_V1.of,
    "icebergCompatV2": ENABLE_ICEBERG_COMPAT_V2.of,
    "inCommitTimestamp": ENABLE_IN_COMMIT_TIMESTAMPS.of,
    "rowTracking": ENABLE_ROW_TRACKING.of,
    "typeWidening": ENABLE_TYPE_WIDENING.of,
    "v2Checkpoint": lambda configuration: CHECKPOINT_POLICY.of(configuration) == "v2",
    "variantShredding": ENABLE_VARIANT_SHREDDING.of,
}
_BY_COLUMN_METADATA = {
    DEFAULT: "allowColumnDefaults",
    GENERATION_EXPRESSION: "generatedColumns",
    INVARIANTS: "invariants",
    TYPE_CHANGES: "typeWidening",
}
_BY_TYPE = {PrimitiveType("timestamp_ntz"): "timestampNtz", PrimitiveType("variant"): "variantType"}


def check_writable(protocol: Protocol, metadata: Metadata, schema: StructType, path: str) -> None:
    """Raises `UnsupportedFeatureError` naming the writer features that this kernel lacks."""
    if protocol.min_writer_version > MAX_WRITER_VERSION:
        raise UnsupportedFeatureError(
            f"the table needs writer version {protocol.min_writer_version}, but this version of Lakeport writes up to "
            f"{MAX_WRITER_VERSION}; upgrade Lakeport [{path}]",
            features=[f"writer version {protocol.min_writer_version}"],
        )
    features = supported_features(protocol)
    if managed := sorted(features & CATALOG_MANAGED):
        raise UnsupportedFeatureError(
            f"the table is managed by a catalog, and only the catalog can commit to it: write it through the catalog "
            f"[{path}]",
            features=managed,
        )
    if missing := sorted((features - WRITER_FEATURES) | _used_but_not_written(metadata.configuration, schema)):
        raise UnsupportedFeatureError(
            f"the table uses the writer feature{'s' * (len(missing) > 1)} {', '.join(missing)}, which this version of "
            f"Lakeport does not write; the table can still be read [{path}]",
            features=missing,
        )


def _used_but_not_written(configuration: Configuration, schema: StructType) -> set[str]:
    used = {"identityColumns"} if any(_is_identity(f.metadata) for f in fields_in(schema)) else set()
    return used | {name for name in _NOT_USED & _BY_PROPERTY.keys() if _BY_PROPERTY[name](configuration)}


def _is_identity(metadata: Mapping[str, Any]) -> bool:
    return any(key.startswith("delta.identity.") for key in metadata)


def supported_features(protocol: Protocol) -> frozenset[str]:
    """The features of a protocol, by name or, before table features, by version."""
    if protocol.min_writer_version >= 7:
        named = protocol.reader_features if protocol.min_reader_version >= 3 else ()
        return frozenset((*(protocol.writer_features or ()), *(named or ())))
    implied = {name for name, version in _LEGACY.items() if version <= protocol.min_writer_version}
    return frozenset(implied if protocol.min_reader_version >= 2 else implied - {"columnMapping"})


def protocol_for(
    protocol: Protocol | None, metadata: Metadata, schema: StructType, extra: Iterable[str] = ()
) -> Protocol:
    """The smallest protocol that extends `protocol` (or a new table's) with everything required.

    Properties require features by enabling them, by `delta.feature.` and by minimum versions. Returns the same protocol
    if it already has everything. Raises `UnsupportedFeatureError` naming requested features that are unknown or not
    writable."""
    before = protocol or NEW_TABLE
    had = supported_features(before)
    asked = {*extra, *_features_asked_for(metadata.configuration), *_features_used(metadata.configuration, schema)}
    asked |= {required for name in asked for required in _REQUIRES.get(name, ())}
    asked = {name for name in asked if f"{name}-preview" not in had}
    if refused := sorted((asked - had - WRITER_FEATURES) | _used_but_not_written(metadata.configuration, schema)):
        raise UnsupportedFeatureError(
            f"this version of Lakeport does not write the feature{'s' * (len(refused) > 1)} {', '.join(refused)}: "
            "leave out the properties and the columns that need it",
            features=refused,
        )
    reader = max(before.min_reader_version, MIN_READER_VERSION.of(metadata.configuration))
    writer = max(before.min_writer_version, MIN_WRITER_VERSION.of(metadata.configuration))
    return _extended(before, asked - had, reader, writer)


def _features_asked_for(configuration: Configuration) -> set[str]:
    """The features of `delta.feature.` properties, in canonical spelling: Spark ignores case."""
    spelled = {name.lower(): name for name in WRITER_FEATURES}
    return {spelled.get(name.lower(), name) for name in features_in(configuration)}


def _features_used(configuration: Configuration, schema: StructType) -> set[str]:
    used = {name for name, is_on in _BY_PROPERTY.items() if is_on(configuration)}
    for field in fields_in(schema):
        used |= {feature for key, feature in _BY_COLUMN_METADATA.items() if field.metadata.get(key) is not None}
    return used | {_BY_TYPE[t] for t in types_in(schema) if isinstance(t, PrimitiveType) and t in _BY_TYPE}


def _extended(before: Protocol, new: set[str], reader: int, writer: int) -> Protocol:
    """`before` with more features and at least these versions."""
    if not new and (reader, writer) == (before.min_reader_version, before.min_writer_version):
        return before
    if reader < 3 and writer < 7 and new <= _LEGACY.keys():
        reader = max(reader, 2 if "columnMapping" in new else 1)
        writer = max([writer, *(_LEGACY[name] for name in new)])
        return Protocol(min_reader_version=reader, min_writer_version=writer)
    had = before.writer_features if before.min_writer_version >= 7 else sorted(supported_features(before))
    features = (*(had or ()), *sorted(new))
    for_readers = [name for name in features if name in READER_FEATURES]
    if reader >= 3 or set(for_readers) - {"columnMapping"}:
        listed = before.reader_features or () if before.min_reader_version >= 3 else ()
        added = tuple(name for name in for_readers if name not in listed)
        return Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=(*listed, *added),
            writer_features=features,
        )
    reader = max(reader, 2 if for_readers else 1)
    return Protocol(min_reader_version=reader, min_writer_version=7, writer_features=features)
