"""Row tracking: ids for the rows of new files, above the table's high-water mark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

import msgspec

from lakeport.errors import CorruptTableError, InvalidDataError
from lakeport.kernel.actions import Add, DomainMetadata, Metadata, Protocol
from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.definition.properties import (
    ENABLE_ROW_TRACKING,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    ROW_TRACKING_SUSPENDED,
)

ROW_TRACKING_DOMAIN = "delta.rowTracking"


class _HighWaterMark(msgspec.Struct, rename="camel"):
    row_id_high_water_mark: int


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every added file needs a base row id."""
    supported = "rowTracking" in (protocol.writer_features or ())
    return supported and not ROW_TRACKING_SUSPENDED.of(metadata.configuration)


def high_water_mark(domains: Mapping[str, str], path: str) -> int:
    """The highest row id assigned so far; -1 if none."""
    configuration = domains.get(ROW_TRACKING_DOMAIN)
    if configuration is None:
        return -1
    try:
        return msgspec.json.decode(configuration, type=_HighWaterMark).row_id_high_water_mark
    except msgspec.MsgspecError as error:
        raise CorruptTableError(f"the domain {ROW_TRACKING_DOMAIN} is not valid: {error}", path=path) from error


def row_tracking_domain(highest: int) -> DomainMetadata:
    """The metadata domain that records the highest row id."""
    return DomainMetadata(ROW_TRACKING_DOMAIN, msgspec.json.encode(_HighWaterMark(highest)).decode())


def assign_row_ids(adds: Iterable[Add], highest: int, version: int) -> tuple[list[Add], DomainMetadata | None]:
    """Assign row ids to files; return them and the domain's new state, if any ids were assigned. Existing ids are kept.

    Raises `InvalidDataError` for a new file whose statistics lack the number of rows."""
    assigned, next_id = [], highest + 1
    for add in adds:
        if add.base_row_id is None:
            records = decode_num_records(add.stats)
            if records is None:
                raise InvalidDataError(f"the file {add.path} has no numRecords, which row tracking needs")
            add = msgspec.structs.replace(add, base_row_id=next_id)
            next_id += records
        if add.default_row_commit_version is None:
            add = msgspec.structs.replace(add, default_row_commit_version=version)
        assigned.append(add)
    if next_id == highest + 1:
        return assigned, None
    return assigned, row_tracking_domain(next_id - 1)


def with_materialised_names(configuration: Mapping[str, str | None]) -> dict[str, str | None]:
    """The properties with names for the materialised row tracking columns, if row tracking is on."""
    named = dict(configuration)
    if ENABLE_ROW_TRACKING.of(named):
        named.setdefault(ROW_ID_COLUMN.name, f"_row-id-col-{uuid.uuid4()}")
        named.setdefault(ROW_COMMIT_VERSION_COLUMN.name, f"_row-commit-version-col-{uuid.uuid4()}")
    return named
