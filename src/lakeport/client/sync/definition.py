"""A copy's definition: the shared table's protocol, schema and properties, plus the sync's own properties."""

from __future__ import annotations

import msgspec

from lakeport.client.opening import AccessMode
from lakeport.kernel.actions import Format, Metadata, Protocol
from lakeport.kernel.definition import (
    CATALOG_MANAGED,
    READER_FEATURES,
    TIMESTAMP_ENABLEMENT,
    TableDefinition,
    supported_features,
    with_history,
)
from lakeport.kernel.snapshot import Snapshot

SYNCED_TABLE = "lakeport.sync.table"
"""A property of the copy: the table's name in the share."""
SYNCED_VERSION = "lakeport.sync.version"
"""A property of the copy: its version of the shared table."""
SYNCED_ACCESS = "lakeport.sync.access"
"""A property of the copy: `dir` if its files are named by the provider's paths rather than the server's ids."""


def copied_definition(
    root: str, before: Snapshot | None, shared: Snapshot, table: str, access: AccessMode
) -> TableDefinition:
    """The definition of the copy at `root` once it has the files of `shared`. It keeps the shared table's id."""
    known = None if before is None else before.definition
    protocol = _without_catalog(shared.protocol)
    return TableDefinition(
        root,
        protocol if known is None else merged_protocol(known.protocol, protocol),
        _metadata(known, shared, table, access),
        before=known,
    )


def _metadata(known: TableDefinition | None, shared: Snapshot, table: str, access: AccessMode) -> Metadata:
    # Versions of the provider's log are meaningless in another log.
    configuration = {name: value for name, value in shared.properties.items() if name not in TIMESTAMP_ENABLEMENT}
    if known is not None:
        configuration = with_history(configuration, known.metadata.configuration)
    noted: dict[str, str | None] = {SYNCED_TABLE: table, SYNCED_VERSION: str(shared.version)}
    if access == "dir":
        noted[SYNCED_ACCESS] = access
    return msgspec.structs.replace(
        shared.metadata, format=shared.metadata.format or Format(), configuration=configuration | noted
    )


def merged_protocol(known: Protocol, shared: Protocol) -> Protocol:
    """The shared table's protocol plus what the copy had before: its older versions and log files may still need it."""
    had, has = supported_features(known), supported_features(shared)
    if had <= has and _versions(known) <= _versions(shared):
        return shared
    if has <= had and _versions(shared) <= _versions(known):
        return known
    features = had | has
    readers = {name for name in features if name in READER_FEATURES}
    readers |= {*(known.reader_features or ()), *(shared.reader_features or ())}
    reader = max(known.min_reader_version, shared.min_reader_version)
    return Protocol(
        min_reader_version=reader,
        min_writer_version=7,
        reader_features=tuple(sorted(readers)) if reader >= 3 else None,
        writer_features=tuple(sorted(features)),
    )


def _versions(protocol: Protocol) -> tuple[int, int]:
    return protocol.min_reader_version, protocol.min_writer_version


def _without_catalog(protocol: Protocol) -> Protocol:
    """No catalog manages the copy."""
    reader, writer = (
        None if names is None else tuple(name for name in names if name not in CATALOG_MANAGED)
        for names in (protocol.reader_features, protocol.writer_features)
    )
    return msgspec.structs.replace(protocol, reader_features=reader, writer_features=writer)
