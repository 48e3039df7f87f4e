"""From a plan to an answer: URLs signed in bulk, lines made lazily, in one of two formats."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from lakeport.kernel.actions import Add, AddCdc, Metadata, Protocol, Remove
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.server.answers.formats import PARQUET, choose_format, metadata_for, protocol_for
from lakeport.server.answers.plan import ADD, CDC, FILE, REMOVE, FileRow, Files, Page, Plan, State
from lakeport.server.answers.table_request import TableRequest
from lakeport.server.catalog.model import Table, shown_places
from lakeport.server.signing.signers import TableSigner
from lakeport.sharing import lines
from lakeport.sharing.capabilities import Capabilities, format_capabilities
from lakeport.sharing.lines import EndStreamAction

_ENCODER = msgspec.json.Encoder()

Urls: TypeAlias = Mapping[str, str]
"""Signed URLs by path, of data files and of deletion vectors."""


def encode_line(kind: str, content: msgspec.Struct) -> bytes:
    return _ENCODER.encode({kind: content}) + b"\n"


class LineWriter(ABC):
    """Writes the lines of one answer; each method returns whole lines."""

    def __init__(self, table: Table, capabilities: Capabilities, digest: Any) -> None:
        self._table, self._capabilities, self._digest = table, capabilities, digest

    def state(self, state: State) -> bytes:
        if isinstance(state.action, Protocol):
            return encode_line("protocol", self._protocol(state.action, state.version))
        totals, places = state.totals, shown_places(self._table)
        amounts = {} if totals is None else {"size": totals.size, "num_files": totals.files}
        access = places | {"access_modes": self._table.access_modes} if places else {}
        return encode_line("metaData", self._metadata(state.action, {"version": state.version} | amounts | access))

    @abstractmethod
    def files(self, files: Files, urls: Urls, expires: int) -> bytes: ...

    @abstractmethod
    def _protocol(self, protocol: Protocol, version: int | None) -> msgspec.Struct: ...

    @abstractmethod
    def _metadata(self, metadata: Metadata, more: dict[str, Any]) -> msgspec.Struct:
        """`more` are values of either format: version, totals, and locations that clients may access directly."""

    def _id(self, key: str) -> str:
        text: str = self._digest(key.encode()).hexdigest()
        return text


class ParquetLines(LineWriter):
    """The parquet format, for tables without advanced features."""

    def _protocol(self, protocol: Protocol, version: int | None) -> lines.Protocol:
        return lines.Protocol()

    def _metadata(self, metadata: Metadata, more: dict[str, Any]) -> lines.Metadata:
        return lines.Metadata(
            id=metadata.id,
            name=metadata.name,
            description=metadata.description,
            format=lines.Format(),
            schema_string=_plain_schema(metadata.schema_string),
            partition_columns=list(metadata.partition_columns),
            configuration=self._configuration(metadata),
            **more,
        )

    def _configuration(self, metadata: Metadata) -> dict[str, str]:
        """Of the table's properties, only whether the change data feed is enabled."""
        try:
            has_feed = ENABLE_CHANGE_DATA_FEED.of(metadata.configuration)
        except ValueError:  # reported to requests for changes; rows can still be read
            has_feed = False
        return {"enableChangeDataFeed": "true"} if has_feed and self._table.history_shared else {}

    def files(self, files: Files, urls: Urls, expires: int) -> bytes:
        key = "cdf" if files.kind == CDC else files.kind
        with_stats = files.kind in (FILE, ADD)
        return _ENCODER.encode_lines(
            {
                key: lines.File(
                    url=urls[row.path],
                    id=self._id(row.key),
                    partition_values=row.partition_values,
                    size=row.size or 0,
                    stats=row.stats if with_stats else None,
                    version=files.version,
                    timestamp=files.timestamp,
                    expiration_timestamp=expires,
                )
            }
            for row in files.rows
        )


class DeltaLines(LineWriter):
    """The delta format: log actions with URLs in place of paths."""

    def _protocol(self, protocol: Protocol, version: int | None) -> lines.DeltaProtocol:
        return lines.DeltaProtocol(delta_protocol=protocol_for(protocol, self._capabilities), version=version)

    def _metadata(self, metadata: Metadata, more: dict[str, Any]) -> lines.DeltaMetadata:
        return lines.DeltaMetadata(delta_metadata=metadata_for(metadata, self._capabilities), **more)

    def files(self, files: Files, urls: Urls, expires: int) -> bytes:
        key = ADD if files.kind == FILE else files.kind
        action = {ADD: _add, REMOVE: _remove, CDC: _cdc}[key]
        return _ENCODER.encode_lines(
            {
                "file": lines.DeltaFile(
                    id=self._id(row.key),
                    deletion_vector_file_id=row.vector_path and self._id(row.vector_path),
                    size=row.size or 0,
                    version=files.version,
                    timestamp=files.timestamp,
                    expiration_timestamp=expires,
                    delta_single_action={key: action(row, urls)},
                )
            }
            for row in files.rows
        )


def line_writer(response_format: str, table: Table, capabilities: Capabilities, file_id_hash: str | None) -> LineWriter:
    """`file_id_hash` is the format whose file ids the client wants."""
    digest = hashlib.md5 if (file_id_hash or response_format) == PARQUET else hashlib.sha256
    kind = ParquetLines if response_format == PARQUET else DeltaLines
    return kind(table, capabilities, digest)


def _add(row: FileRow, urls: Urls) -> Add:
    return Add(
        path=urls[row.path],
        partition_values=row.partition_values,
        size=row.size or 0,
        modification_time=row.modification_time,
        data_change=True,
        stats=row.stats,
        deletion_vector=_vector(row, urls),
        **row.details,
    )


def _remove(row: FileRow, urls: Urls) -> Remove:
    details = {name: value for name, value in row.details.items() if name != "clustering_provider"}
    return Remove(
        path=urls[row.path],
        data_change=True,
        extended_file_metadata=True,
        partition_values=row.partition_values,
        size=row.size or 0,
        deletion_vector=_vector(row, urls),
        **details,
    )


def _cdc(row: FileRow, urls: Urls) -> AddCdc:
    return AddCdc(path=urls[row.path], partition_values=row.partition_values, size=row.size or 0, data_change=False)


def _vector(row: FileRow, urls: Urls) -> DeletionVectorDescriptor | None:
    """The descriptor on the wire: a vector in a file becomes type `p`, with its URL as the path."""
    if row.vector is None or row.vector_path is None:
        return row.vector
    return msgspec.structs.replace(row.vector, storage_type="p", path_or_inline_dv=urls[row.vector_path])


def _plain_schema(schema_string: str) -> str:
    """The schema without Delta's column metadata, except comments."""
    schema = msgspec.json.decode(schema_string)
    for column in schema["fields"]:
        comment = column.get("metadata", {}).get("comment")
        column["metadata"] = {} if comment is None else {"comment": comment}
    return msgspec.json.encode(schema).decode()


class Chunk(NamedTuple):
    """Whole lines, and how many files of how many bytes they grant."""

    lines: bytes
    files: int = 0
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a request on a table. Iterating over `chunks` blocks and may raise."""

    version: int
    """The route sends it as `Delta-Table-Version`."""
    response_format: str
    end_stream_action: bool
    """Whether the client reads `EndStreamAction`, and so errors in it."""
    chunks: Iterator[Chunk]
    details: dict[str, Any] = field(default_factory=dict)
    """Request parameters, for the audit log."""

    @property
    def capabilities(self) -> str:
        """What the route sends as `delta-sharing-capabilities`."""
        return format_capabilities(
            Capabilities(response_formats=(self.response_format,), include_end_stream_action=self.end_stream_action)
        )


@dataclass(frozen=True)
class End:
    """The tokens in the last line."""

    page_token: Callable[[Page[Any]], str]
    refresh_token: str | None = None


def write_answer(plan: Plan, table_request: TableRequest, signer: FileSigner, end: End | None) -> Answer:
    """Without `end`, there is no `EndStreamAction`. Raises `SharingError` (400) if the client cannot read the table."""
    response_format = choose_format(plan.needs, table_request.capabilities, table_request.table_name)
    writer = line_writer(response_format, table_request.table, table_request.capabilities, table_request.file_id_hash)
    return Answer(
        version=plan.version,
        response_format=response_format,
        end_stream_action=end is not None,
        chunks=_chunks(plan, writer, signer, end),
        details=plan.details,
    )


def error_line(message: str, status: int) -> bytes:
    """The last line of an answer that fails midway."""
    return encode_line("endStreamAction", EndStreamAction(error_message=message, http_status_error_code=status))


class FileSigner:
    """Signs the files of one answer."""

    def __init__(self, signer: TableSigner, now: Callable[[], float]) -> None:
        self._signer, self._now = signer, now
        self._replaced: Collection[str] = ()
        self._urls_of_replaced: dict[str, str] = {}
        self.expires: int | None = None
        """The earliest expiry of the URLs so far, in milliseconds since the epoch."""

    def sign(self, files: Files) -> Urls:
        """The URLs of the files and of their deletion vectors."""
        if files.replaced is not self._replaced:
            self._replaced, self._urls_of_replaced = files.replaced, self._sign(files.replaced)
        known = self._urls_of_replaced
        paths: dict[str, None] = dict.fromkeys(row.path for row in files.rows if row.path not in known)
        paths |= dict.fromkeys(row.vector_path for row in files.rows if row.vector_path is not None)
        return self._sign(paths) | known

    def _sign(self, paths: Collection[str]) -> dict[str, str]:
        expires = self._signer.expires(int(self._now() * 1000))
        self.expires = min(expires, self.expires or expires)
        return dict(zip(paths, self._signer.sign(list(paths)), strict=True)) if paths else {}


def _chunks(plan: Plan, writer: LineWriter, signer: FileSigner, end: End | None) -> Iterator[Chunk]:
    following: Page[Any] | None = None
    for part in plan.parts:
        if isinstance(part, Files):
            urls = signer.sign(part)
            assert signer.expires is not None
            lines = writer.files(part, urls, signer.expires)
            yield Chunk(lines, len(part.rows), sum(row.size or 0 for row in part.rows))
        elif isinstance(part, State):
            yield Chunk(writer.state(part))
        else:
            following = part
    if end is not None:
        action = EndStreamAction(
            next_page_token=end.page_token(following) if following else None,
            refresh_token=end.refresh_token,
            min_url_expiration_timestamp=signer.expires,
        )
        yield Chunk(encode_line("endStreamAction", action))
