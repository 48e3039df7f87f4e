"""The format of an answer, and whether the client can read the table at all.

See "Delta Sharing Capabilities Header" in the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from lakeport.errors import SharingError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.definition import CHECKPOINT_POLICY, column_mapping_mode, reader_features
from lakeport.server.answers.opened_tables import SharedSnapshot
from lakeport.sharing.capabilities import Capabilities

PARQUET, DELTA = "parquet", "delta"

_LOG_ONLY = frozenset({"v2Checkpoint", "vacuumProtocolCheck"})
"""Features of the provider's log, which recipients never see."""
_TURNED_ON_BY = {"v2Checkpoint": CHECKPOINT_POLICY.name}
"""The properties that turn these features on. Readers refuse a table that has the property without the feature."""


@dataclass(frozen=True)
class Needs:
    """The requirements for reading a table."""

    features: frozenset[str]
    """Reader features that a client of the delta format must support."""
    beyond_parquet: frozenset[str]
    """Those that the data actually use and the parquet format cannot express."""


def needs_of_snapshot(shared: SharedSnapshot) -> Needs:
    """Deletion vectors and column mapping are needed only where they are used, not where they are merely enabled."""
    features = _features(shared.delta.protocol, shared.delta.mapping_mode)
    unused = set()
    if shared.totals.vectors:
        features |= {"deletionVectors"}
    else:
        unused.add("deletionVectors")
    if shared.delta.mapping_mode == "none":
        unused.add("columnMapping")
    return Needs(features, features - unused)


def needs_of_range(states: Iterable[tuple[Protocol, Metadata]], root: str, has_vectors: Callable[[], bool]) -> Needs:
    """The needs of several versions combined. `has_vectors` is called only if one of them enables deletion vectors."""
    features: frozenset[str] = frozenset()
    unused = {"columnMapping"}
    for protocol, metadata in states:
        mode = column_mapping_mode(protocol, metadata, root)
        features |= _features(protocol, mode)
        if mode != "none":
            unused.clear()
    if "deletionVectors" in features and not has_vectors():
        unused.add("deletionVectors")
    return Needs(features, features - unused)


def protocol_of_range(states: Iterable[tuple[Protocol, Metadata]], needs: Needs) -> Protocol:
    """One protocol that can read the files of all versions. Features can come and go within a range, and a client
    ignores deletion vectors, for example, unless the protocol lists them."""
    newest_first = reversed([protocol for protocol, _ in states])
    strongest = max(newest_first, key=lambda protocol: protocol.min_reader_version)
    if strongest.min_reader_version < 3:
        return strongest
    known = {"reader_features": strongest.reader_features or (), "writer_features": strongest.writer_features or ()}
    complete = {key: (*names, *sorted(needs.features.difference(names))) for key, names in known.items()}
    return msgspec.structs.replace(strongest, **complete)


def choose_format(needs: Needs, capabilities: Capabilities, table: str) -> str:
    """The format of the answer. Raises `SharingError` (400) that names what the client lacks."""
    accepted = [name for name in capabilities.response_formats if name in (PARQUET, DELTA)] or [PARQUET]
    undeclared = _undeclared(needs, capabilities)
    if PARQUET in accepted and not (needs.beyond_parquet if undeclared else needs.features):
        return PARQUET
    if DELTA in accepted:
        _check_declared(undeclared, table)
        return DELTA
    if needs.beyond_parquet:
        names = ", ".join(sorted(needs.beyond_parquet))
        raise SharingError(
            f"the table {table} uses {names}, which the parquet response format cannot express; request it with "
            f"delta-sharing-capabilities: responseformat=delta;readerfeatures={names.replace(' ', '').lower()}",
            status=400,
            code="UNSUPPORTED_OPERATION",
        )
    return PARQUET


def protocol_for(protocol: Protocol, capabilities: Capabilities) -> dict[str, Any]:
    """The table's Delta protocol, without features that only concern the provider's log, unless the client supports
    them."""
    dropped = _dropped(capabilities)
    content: dict[str, Any] = msgspec.to_builtins(_for_all_readers(protocol))
    for key in ("readerFeatures", "writerFeatures"):
        if content[key] is None:
            del content[key]
        else:
            content[key] = [name for name in content[key] if name not in dropped]
    return content


def metadata_for(metadata: Metadata, capabilities: Capabilities) -> dict[str, Any]:
    """The table's Delta metadata, without the properties of features that `protocol_for` drops."""
    content: dict[str, Any] = {key: value for key, value in msgspec.to_builtins(metadata).items() if value is not None}
    content.setdefault("format", {"provider": "parquet", "options": {}})
    dropped = {_TURNED_ON_BY.get(name) for name in _dropped(capabilities)}
    content["configuration"] = {key: value for key, value in metadata.configuration.items() if key not in dropped}
    return content


def _for_all_readers(protocol: Protocol) -> Protocol:
    """Copy reader features that are listed only for writers: many clients do not look for them there."""
    listed = protocol.reader_features or ()
    missing = sorted(reader_features(protocol).difference(listed))
    if not missing or (protocol.min_reader_version == 2 and missing == ["columnMapping"]):
        return protocol
    return msgspec.structs.replace(protocol, min_reader_version=3, reader_features=(*listed, *missing))


def _dropped(capabilities: Capabilities) -> set[str]:
    return {name for name in _LOG_ONLY if name.lower() not in capabilities.reader_features}


def _features(protocol: Protocol, mapping_mode: str) -> frozenset[str]:
    features = reader_features(protocol) - _LOG_ONLY
    if mapping_mode != "none":
        return features | {"columnMapping"}
    return features if protocol.has_reader_feature("columnMapping") else features - {"columnMapping"}


def _undeclared(needs: Needs, capabilities: Capabilities) -> list[str]:
    return sorted(name for name in needs.features if name.lower() not in capabilities.reader_features)


def _check_declared(missing: list[str], table: str) -> None:
    if missing:
        raise SharingError(
            f"the table {table} needs the reader feature{'s' * (len(missing) > 1)} {', '.join(missing)}, which the "
            "client did not declare in readerfeatures of the header delta-sharing-capabilities; use a newer client",
            status=400,
            code="UNSUPPORTED_OPERATION",
        )
