"""A server's response as a Delta log, which the kernel reads like any other.

A snapshot is one checkpoint at its version. A range of changes is an empty checkpoint before its first version, and one
commit per version. Data files and deletion vectors have paths like `delta-sharing:///table/id/size`; the storage maps
them to their current URLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import msgspec

from lakeport.client.http.limits import FILE_BYTES, VECTOR_BYTES, VERSIONS
from lakeport.engine.storage.signing import SignedUrl
from lakeport.errors import SharingError
from lakeport.kernel.actions import Action, Add, AddCdc, Metadata, Protocol, Remove, encode_actions
from lakeport.kernel.definition import COLUMN_MAPPING_MODE, ENABLE_CHANGE_DATA_FEED
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.paths import encode_path
from lakeport.sharing import lines as wire

DATA = "delta-sharing://"
LOG = "delta-sharing://log"
"""Where logs are: in the same storage as the data, whose paths have no authority."""

_FEED = "enableChangeDataFeed"
_AROUND_A_VECTOR = 8
"""Bytes for length and checksum around a vector in a file."""


class _FileAction(msgspec.Struct, rename="camel"):
    """A file action of the delta format; fields that old servers omit have defaults."""

    path: str
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    modification_time: int = 0
    data_change: bool = True
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None


class _SingleAction(msgspec.Struct):
    add: _FileAction | None = None
    remove: _FileAction | None = None
    cdc: _FileAction | None = None


class _DeltaFile(msgspec.Struct, rename="camel"):
    id: str
    delta_single_action: _SingleAction
    deletion_vector_file_id: str | None = None
    size: int | None = None
    version: int | None = None
    timestamp: int | None = None
    expiration_timestamp: int | None = None


class _DeltaProtocol(msgspec.Struct, rename="camel"):
    delta_protocol: Protocol
    version: int | None = None


class _DeltaMetadata(msgspec.Struct, rename="camel"):
    delta_metadata: Metadata
    version: int | None = None


class _DeltaLine(msgspec.Struct):
    protocol: _DeltaProtocol | None = None
    metaData: _DeltaMetadata | None = None  # noqa: N815  # the key in JSON
    file: _DeltaFile | None = None


class _ParquetLine(msgspec.Struct):
    protocol: wire.Protocol | None = None
    metaData: wire.Metadata | None = None  # noqa: N815  # the key in JSON
    file: wire.File | None = None
    add: wire.File | None = None
    remove: wire.File | None = None
    cdf: wire.File | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A parsed line: a log action, and its version and time, if given."""

    action: Action
    version: int | None = None
    timestamp: int | None = None


class LineReader:
    """Converts the lines of one response to actions and records the URLs. `table` names it in file paths."""

    def __init__(self, response_format: str, table: str) -> None:
        self._table = quote(table, safe="")
        self.urls: dict[str, SignedUrl] = {}
        self._read = self._delta if response_format == "delta" else self._parquet
        self._decoder = msgspec.json.Decoder(_DeltaLine if response_format == "delta" else _ParquetLine)

    def read(self, lines: Iterable[bytes]) -> Iterator[LogLine]:
        """Raises `SharingError` for a line that violates the protocol; skips unknown kinds of lines."""
        for line in lines:
            try:
                decoded = self._decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                raise _malformed(f"an invalid line: {error}") from error
            logged = self._read(decoded)
            if logged is not None:
                yield logged

    def _delta(self, line: Any) -> LogLine | None:
        if line.file is not None:
            return self._delta_file(line.file)
        if line.metaData is not None:
            return LogLine(line.metaData.delta_metadata, line.metaData.version)
        return None if line.protocol is None else LogLine(line.protocol.delta_protocol, line.protocol.version)

    def _delta_file(self, file: _DeltaFile) -> LogLine | None:
        single = file.delta_single_action
        found = single.add or single.remove or single.cdc
        if found is None:
            return None
        size = file.size if found.size is None else found.size
        expires = file.expiration_timestamp
        action = msgspec.structs.replace(
            found,
            path=self._place(file.id, size or 0, found.path, expires),
            size=size,
            deletion_vector=self._vector(file, found.deletion_vector),
        )
        kind = "add" if single.add else "remove" if single.remove else "cdc"
        return LogLine(_action(kind, action), file.version, file.timestamp)

    def _vector(self, file: _DeltaFile, vector: DeletionVectorDescriptor | None) -> DeletionVectorDescriptor | None:
        if vector is None or vector.storage_type == "i":
            return vector
        if not (0 <= vector.size_in_bytes < VECTOR_BYTES and 0 <= (vector.offset or 0) < FILE_BYTES // 2):
            raise _malformed(f"an invalid deletion vector, of {vector.size_in_bytes} bytes at {vector.offset}")
        # A file can have several vectors in a version range, and over time.
        identity = file.deletion_vector_file_id or f"{file.id}-deletion-vector-{vector.cardinality}"
        size = (vector.offset or 1) + vector.size_in_bytes + _AROUND_A_VECTOR
        path = self._place(identity, size, vector.path_or_inline_dv, file.expiration_timestamp)
        return msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=path)

    def _parquet(self, line: Any) -> LogLine | None:
        if line.metaData is not None:
            return LogLine(_metadata(line.metaData), line.metaData.version)
        if line.protocol is not None:
            return LogLine(Protocol(min_reader_version=line.protocol.min_reader_version, min_writer_version=4))
        kinds = {"add": line.file or line.add, "remove": line.remove, "cdc": line.cdf}
        kind = next((kind for kind, file in kinds.items() if file is not None), None)
        if kind is None:
            return None
        file = kinds[kind]
        path = self._place(file.id, file.size, file.url, file.expiration_timestamp)
        action = _FileAction(path=path, partition_values=file.partition_values, size=file.size, stats=file.stats)
        return LogLine(_action(kind, action), file.version, file.timestamp)

    def _place(self, identity: str, size: int, url: str, expires: int | None) -> str:
        """The path of a file, as the log writes it. Raises `SharingError` for an impossible size: readers plan and
        allocate memory by it."""
        if not 0 <= size <= FILE_BYTES:
            raise _malformed(f"a file with the invalid size of {size} bytes")
        plain = f"{DATA}/{self._table}/{quote(identity, safe='')}/{size}"
        self.urls[plain] = SignedUrl(url, expires)
        return encode_path(plain)


def _action(kind: str, found: _FileAction) -> Add | Remove | AddCdc:
    partition_values, size = found.partition_values or {}, found.size or 0
    if kind == "cdc":
        return AddCdc(path=found.path, partition_values=partition_values, size=size, data_change=False)
    shared: dict[str, Any] = {
        "path": found.path,
        "data_change": found.data_change,
        "partition_values": partition_values,
        "size": size,
        "stats": found.stats,
        "tags": found.tags,
        "deletion_vector": found.deletion_vector,
        "base_row_id": found.base_row_id,
        "default_row_commit_version": found.default_row_commit_version,
    }
    if kind == "remove":
        return Remove(**shared, extended_file_metadata=True)
    return Add(**shared, modification_time=found.modification_time, clustering_provider=found.clustering_provider)


def _metadata(found: wire.Metadata) -> Metadata:
    """The parquet format has only one of the table's properties: whether its changes can be read."""
    configuration: dict[str, str | None] = dict(found.configuration)
    if _FEED in configuration:
        configuration[ENABLE_CHANGE_DATA_FEED.name] = configuration.pop(_FEED)
    return Metadata(
        id=found.id,
        name=found.name,
        description=found.description,
        schema_string=found.schema_string,
        partition_columns=tuple(found.partition_columns),
        configuration=configuration,
    )


def with_feed(logged: LogLine) -> LogLine:
    """Add the change data feed property: a table with changes has one, but the parquet format may not say so."""
    if not isinstance(logged.action, Metadata):
        return logged
    configuration = {ENABLE_CHANGE_DATA_FEED.name: "true", **logged.action.configuration}
    return replace(logged, action=msgspec.structs.replace(logged.action, configuration=configuration))


def snapshot_log(version: int, head: Iterable[LogLine], files: Iterable[LogLine]) -> dict[str, tuple[bytes, int]]:
    """The log of one version: a checkpoint with protocol, metadata and files, dated as the version if the lines say.
    Raises `SharingError` for a duplicate file, for partition values that would be ignored, and for a different protocol
    or metadata among the files."""
    lines = [*head, *files]
    _check_one_head(lines)
    _check_unique_files(logged.action for logged in lines)
    _check_partition_values(lines)
    time = max((logged.timestamp for logged in lines if logged.timestamp is not None), default=0)
    return {_checkpoint_name(version): (_checkpoint(version, lines), time)}


def _check_one_head(lines: Iterable[LogLine]) -> None:
    """Raises `SharingError` unless the version has one protocol and one metadata."""
    for kind in (Protocol, Metadata):
        found = [logged.action for logged in lines if isinstance(logged.action, kind)]
        if any(one != found[0] for one in found):
            raise _malformed("a second protocol or metadata, different from the first, for one version")


def _check_unique_files(actions: Iterable[Action]) -> None:
    """Raises `SharingError` for a duplicate file: it would be read twice."""
    files = [(type(action), action.path) for action in actions if isinstance(action, Add | Remove | AddCdc)]
    if len(set(files)) < len(files):
        raise _malformed("a file of the table twice")


def _check_partition_values(lines: Iterable[LogLine]) -> None:
    """Raises `SharingError` for a value of a non-partition column: it would read as null."""
    actions = [logged.action for logged in lines]
    metadata = [action for action in actions if isinstance(action, Metadata)]
    if any(COLUMN_MAPPING_MODE.name in one.configuration for one in metadata):
        return  # values are keyed by physical names
    known = {name.lower() for one in metadata for name in one.partition_columns}
    logged = {name for action in actions if isinstance(action, Add) for name in action.partition_values}
    if unknown := sorted(name for name in logged if name.lower() not in known):
        raise _malformed(f"a file with a partition value of {unknown[0]!r}, which is not a partition column")


def changes_log(start: int, end: int, head: list[LogLine], lines: Iterable[LogLine]) -> dict[str, tuple[bytes, int]]:
    """The log of versions `start` to `end`: each line in its version, on top of an empty table. Raises `SharingError`
    for more versions than fit into memory, and for a duplicate file in a version."""
    if end - start >= VERSIONS:
        raise SharingError(
            f"the changes span versions {start} to {end}, but at most {VERSIONS:,} versions are read at once; "
            "narrow the range with a starting and an ending version",
            status=200,
            code="TOO_MANY_VERSIONS",
        )
    commits: dict[int, list[Action]] = {version: [] for version in range(start, end + 1)}
    times: dict[int, int] = {}
    for logged in lines:
        if logged.version is None or logged.version not in commits:
            raise _malformed(f"a change of version {logged.version}, which was not requested")
        commits[logged.version].append(logged.action)
        if logged.timestamp is not None:
            times[logged.version] = logged.timestamp
    for actions in commits.values():
        _check_unique_files(actions)
    first = [logged.action for logged in head]
    files = {}
    if start > 0:
        files[_checkpoint_name(start - 1)] = (_checkpoint(start - 1, head), 0)
    commits[start] = first + [a for a in commits[start] if not isinstance(a, Protocol | Metadata)]
    for version, time in _all_times(times, start, end).items():
        actions = commits[version]
        info = msgspec.json.encode({"commitInfo": {"inCommitTimestamp": time}}) + b"\n"
        files[f"{version:020d}.json"] = (info + encode_actions(actions), time)
    return files


def _malformed(what: str) -> SharingError:
    message = f"the server sent {what}; tell the provider"
    return SharingError(message, status=502, code="MALFORMED_ANSWER")


def _all_times(known: dict[int, int], start: int, end: int) -> dict[int, int]:
    """A strictly increasing time for each version; versions without changes have none of their own."""
    first = min(known, default=start)
    time = known.get(first, 0) - (first - start) - 1
    times = {}
    for version in range(start, end + 1):
        time = known.get(version, time + 1)
        times[version] = time
    return times


def _checkpoint_name(version: int) -> str:
    """A V2 checkpoint in JSON; any UUID will do."""
    return f"{version:020d}.checkpoint.00000000-0000-4000-8000-000000000000.json"


def _checkpoint(version: int, logged: Iterable[LogLine]) -> bytes:
    mark = msgspec.json.encode({"checkpointMetadata": {"version": version}})
    return mark + b"\n" + encode_actions(one.action for one in logged)
