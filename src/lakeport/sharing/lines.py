"""The lines of a table response: one JSON object each, in the parquet or delta format.

The delta format wraps actions of the Delta log, with URLs in place of paths; the parquet format has its own objects.
"""

from __future__ import annotations

from typing import Any

import msgspec

from lakeport.sharing.models import WireModel


class EndStreamAction(WireModel, frozen=True):
    """The last line, if the client asked for it, pages are left, or an error came after the answer had begun."""

    refresh_token: str | None = None
    next_page_token: str | None = None
    min_url_expiration_timestamp: int | None = None
    error_message: str | None = None
    http_status_error_code: int | None = None


PENDING = "pending"


class QueryStatus(WireModel, frozen=True):
    """The only line of the answer to a query that is not ready yet, or has failed in the background."""

    query_id: str
    status: str | None = None
    error_message: str | None = None
    message: str | None = None
    """The protocol requires an error message but does not name the field."""


# The parquet format.


class Format(WireModel, frozen=True, omit_defaults=False):
    provider: str = "parquet"


class Protocol(WireModel, frozen=True, omit_defaults=False):
    min_reader_version: int = 1


class Metadata(WireModel, frozen=True):
    id: str
    format: Format
    schema_string: str
    partition_columns: list[str]
    name: str | None = None
    description: str | None = None
    configuration: dict[str, str] = msgspec.field(default_factory=dict)
    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    auxiliary_locations: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()


class File(WireModel, frozen=True):
    """A data file of a snapshot; or, with a version, one that a commit added, removed, or wrote changes into."""

    url: str
    id: str
    partition_values: dict[str, str | None]
    size: int
    stats: str | None = None
    version: int | None = None
    timestamp: int | None = None
    expiration_timestamp: int | None = None


# The delta format.


class DeltaProtocol(WireModel, frozen=True):
    delta_protocol: dict[str, Any]
    version: int | None = None


class DeltaMetadata(WireModel, frozen=True):
    delta_metadata: dict[str, Any]
    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    auxiliary_locations: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()


class DeltaFile(WireModel, frozen=True):
    id: str
    delta_single_action: dict[str, Any]
    deletion_vector_file_id: str | None = None
    size: int | None = None
    version: int | None = None
    timestamp: int | None = None
    expiration_timestamp: int | None = None
