"""Reader features: which tables this kernel can read, and what their features enable."""

from __future__ import annotations

from lakeport.errors import CorruptTableError, UnsupportedFeatureError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.definition.properties import COLUMN_MAPPING_MODE
from lakeport.kernel.schema import TYPE_CHANGES, StructType, fields_in, parse_schema, widens

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
