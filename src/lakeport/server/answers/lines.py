"""The lines of an answer, in either format, from log actions and signed URLs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from lakeport.kernel.actions import Add, AddCdc, Metadata, Remove
from lakeport.kernel.actions import Protocol as DeltaProtocolAction
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.server.answers.file_rows import FileRow
from lakeport.server.answers.formats import PARQUET, metadata_for, protocol_for
from lakeport.server.answers.opened_tables import Totals
from lakeport.server.catalog.locations import shown_places
from lakeport.server.catalog.model import Table
from lakeport.sharing import lines
from lakeport.sharing.capabilities import Capabilities

_ENCODER = msgspec.json.Encoder()

FILE, ADD, REMOVE, CDC = "file", "add", "remove", "cdc"
"""The kinds of file lines: in the snapshot; or added, removed, or written as change data by a commit."""


class SignedRow(msgspec.Struct, frozen=True):
    """A file with signed URLs for itself and its deletion vector."""

    row: FileRow
    url: str
    vector_url: str | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The version of a line, if the answer spans several versions or a version was requested."""

    version: int | None = None
    timestamp: int | None = None


class LineWriter(Protocol):
    """Writes the lines of one answer; each method returns whole lines."""

    def protocol(self, protocol: DeltaProtocolAction, version: int | None = None) -> bytes: ...

    def metadata(self, metadata: Metadata, version: int | None = None, totals: Totals | None = None) -> bytes: ...

    def files(self, kind: str, rows: Iterable[SignedRow], moment: Moment, expires: int) -> bytes: ...


def line_writer(response_format: str, table: Table, capabilities: Capabilities, file_id_hash: str | None) -> LineWriter:
    """`file_id_hash` is the format whose file ids the client wants."""
    digest = hashlib.md5 if (file_id_hash or response_format) == PARQUET else hashlib.sha256
    kind = ParquetLines if response_format == PARQUET else DeltaLines
    return kind(table, capabilities, digest)


def encode_line(kind: str, content: msgspec.Struct) -> bytes:
    return _ENCODER.encode({kind: content}) + b"\n"


class _Lines:
    def __init__(self, table: Table, capabilities: Capabilities, digest: Any) -> None:
        self._table, self._capabilities, self._digest = table, capabilities, digest

    def _id(self, key: str) -> str:
        text: str = self._digest(key.encode()).hexdigest()
        return text

    def _places(self) -> dict[str, Any]:
        """The table's locations, for clients that may access them directly."""
        places = shown_places(self._table)
        return places | {"access_modes": self._table.access_modes} if places else {}

    def _amounts(self, totals: Totals | None) -> dict[str, Any]:
        return {} if totals is None else {"size": totals.size, "num_files": totals.files}


class ParquetLines(_Lines):
    """The parquet format, for tables without advanced features."""

    def protocol(self, protocol: DeltaProtocolAction, version: int | None = None) -> bytes:
        return encode_line("protocol", lines.Protocol())

    def metadata(self, metadata: Metadata, version: int | None = None, totals: Totals | None = None) -> bytes:
        content = lines.Metadata(
            id=metadata.id,
            name=metadata.name,
            description=metadata.description,
            format=lines.Format(),
            schema_string=_plain_schema(metadata.schema_string),
            partition_columns=list(metadata.partition_columns),
            configuration=self._configuration(metadata),
            version=version,
            **self._amounts(totals),
            **self._places(),
        )
        return encode_line("metaData", content)

    def _configuration(self, metadata: Metadata) -> dict[str, str]:
        """Of the table's properties, only whether the change data feed is enabled."""
        try:
            has_feed = ENABLE_CHANGE_DATA_FEED.of(metadata.configuration)
        except ValueError:  # reported to requests for changes; rows can still be read
            has_feed = False
        return {"enableChangeDataFeed": "true"} if has_feed and self._table.history_shared else {}

    def files(self, kind: str, rows: Iterable[SignedRow], moment: Moment, expires: int) -> bytes:
        key = "cdf" if kind == CDC else kind
        version, timestamp, with_stats = moment.version, moment.timestamp, kind in (FILE, ADD)
        return _ENCODER.encode_lines(
            {
                key: lines.File(
                    url=signed.url,
                    id=self._id(signed.row.key),
                    partition_values=signed.row.partition_values,
                    size=signed.row.size or 0,
                    stats=signed.row.stats if with_stats else None,
                    version=version,
                    timestamp=timestamp,
                    expiration_timestamp=expires,
                )
            }
            for signed in rows
        )


class DeltaLines(_Lines):
    """The delta format: log actions with URLs in place of paths."""

    def protocol(self, protocol: DeltaProtocolAction, version: int | None = None) -> bytes:
        content = lines.DeltaProtocol(delta_protocol=protocol_for(protocol, self._capabilities), version=version)
        return encode_line("protocol", content)

    def metadata(self, metadata: Metadata, version: int | None = None, totals: Totals | None = None) -> bytes:
        content = lines.DeltaMetadata(
            delta_metadata=metadata_for(metadata, self._capabilities),
            version=version,
            **self._amounts(totals),
            **self._places(),
        )
        return encode_line("metaData", content)

    def files(self, kind: str, rows: Iterable[SignedRow], moment: Moment, expires: int) -> bytes:
        wrap = {FILE: _add, ADD: _add, REMOVE: _remove, CDC: _cdc}[kind]
        key = ADD if kind == FILE else kind
        return _ENCODER.encode_lines(
            {
                "file": lines.DeltaFile(
                    id=self._id(signed.row.key),
                    deletion_vector_file_id=signed.row.vector_path and self._id(signed.row.vector_path),
                    size=signed.row.size or 0,
                    version=moment.version,
                    timestamp=moment.timestamp,
                    expiration_timestamp=expires,
                    delta_single_action={key: wrap(signed)},
                )
            }
            for signed in rows
        )


def _add(signed: SignedRow) -> Add:
    row = signed.row
    return Add(
        path=signed.url,
        partition_values=row.partition_values,
        size=row.size or 0,
        modification_time=row.modification_time,
        data_change=True,
        stats=row.stats,
        deletion_vector=_vector(signed),
        **row.details,
    )


def _remove(signed: SignedRow) -> Remove:
    row = signed.row
    details = {name: value for name, value in row.details.items() if name != "clustering_provider"}
    return Remove(
        path=signed.url,
        data_change=True,
        extended_file_metadata=True,
        partition_values=row.partition_values,
        size=row.size or 0,
        deletion_vector=_vector(signed),
        **details,
    )


def _cdc(signed: SignedRow) -> AddCdc:
    row = signed.row
    return AddCdc(path=signed.url, partition_values=row.partition_values, size=row.size or 0, data_change=False)


def _vector(signed: SignedRow) -> DeletionVectorDescriptor | None:
    """The descriptor on the wire: a vector in a file becomes type `p`, with its URL as the path."""
    vector, url = signed.row.vector, signed.vector_url
    if vector is None or url is None:
        return vector
    return msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=url)


def _plain_schema(schema_string: str) -> str:
    """The schema without Delta's column metadata, except comments."""
    schema = msgspec.json.decode(schema_string)
    for field in schema["fields"]:
        comment = field.get("metadata", {}).get("comment")
        field["metadata"] = {} if comment is None else {"comment": comment}
    return msgspec.json.encode(schema).decode()
