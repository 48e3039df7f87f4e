"""Which tables this kernel can read, and what their features switch on."""

from __future__ import annotations

from lakeport.errors import CorruptTableError, UnsupportedFeatureError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.schema import PrimitiveType, StructType, fields_in

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

_WIDER_INTEGERS = {"byte": 0, "short": 1, "integer": 2, "long": 3}


def check_readable(protocol: Protocol, path: str) -> None:
    """Raises `UnsupportedFeatureError` with the names of what is needed and missing."""
    if protocol.min_reader_version > MAX_READER_VERSION:
        raise UnsupportedFeatureError(
            f"the table needs reader version {protocol.min_reader_version}, this version of Lakeport reads up to "
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


def is_catalog_managed(protocol: Protocol) -> bool:
    return any(protocol.has_reader_feature(name) for name in CATALOG_MANAGED)


def column_mapping_mode(protocol: Protocol, metadata: Metadata, path: str) -> str:
    """`none`, `name` or `id`; the property counts only where the protocol supports the feature."""
    if protocol.min_reader_version != 2 and not protocol.has_reader_feature("columnMapping"):
        return "none"
    mode = metadata.configuration.get("delta.columnMapping.mode") or "none"
    if mode not in ("none", "name", "id"):
        raise CorruptTableError(f"delta.columnMapping.mode is {mode!r}: it must be none, name or id", path=path)
    return mode


def check_type_changes(schema: StructType, path: str) -> None:
    """Raises `UnsupportedFeatureError` for a recorded type change that readers do not know."""
    for field in fields_in(schema):
        for change in field.metadata.get("delta.typeChanges") or ():
            if not isinstance(change, dict):
                raise CorruptTableError(f"delta.typeChanges of the column {field.name!r} is not valid", path=path)
            before, after = str(change.get("fromType")), str(change.get("toType"))
            if not widens(before, after):
                raise UnsupportedFeatureError(
                    f"the column {field.name!r} was changed from {before} to {after}: this version of Lakeport cannot "
                    f"read its older files; upgrade Lakeport [{path}]",
                    features=[f"type change {before} to {after}"],
                )


def widens(before: str, after: str) -> bool:
    """Whether type widening allows this change of a primitive type."""
    if before == after:
        return True
    if before in _WIDER_INTEGERS and after in _WIDER_INTEGERS:
        return _WIDER_INTEGERS[before] < _WIDER_INTEGERS[after]
    if after == "double":
        return before in ("float", "byte", "short", "integer")
    if after == "timestamp_ntz":
        return before == "date"
    if target := PrimitiveType(after).decimal:
        integers = {"byte": (10, 0), "short": (10, 0), "integer": (10, 0), "long": (20, 0)}
        source = integers.get(before) or PrimitiveType(before).decimal
        return source is not None and target[0] - source[0] >= target[1] - source[1] >= 0
    return False
