"""The log's actions as values, the Arrow types that an engine reads them in, and the newest action of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from lakeport.errors import CorruptTableError
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.engine import FILE_INDEX, FileStatus

_Action = TypeVar("_Action", bound=msgspec.Struct)
TEXT_MAP = pa.map_(pa.string(), pa.string())
_TEXT_LIST = pa.list_(pa.string())

PROTOCOL = pa.field(
    "protocol",
    pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _TEXT_LIST),
            ("writerFeatures", _TEXT_LIST),
        ]
    ),
)
METADATA = pa.field(
    "metaData",
    pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", TEXT_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _TEXT_LIST),
            ("configuration", TEXT_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
)
TRANSACTION = pa.field("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]))
DOMAIN_METADATA = pa.field(
    "domainMetadata",
    pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
)
SIDECAR = pa.field(
    "sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
)
DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
FILE_KEY = [("path", pa.string()), ("deletionVector", DELETION_VECTOR)]
REMOVE = pa.field("remove", pa.struct(FILE_KEY))
STATE_FIELDS = [PROTOCOL, METADATA, TRANSACTION, DOMAIN_METADATA]


class Protocol(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The versions and features that a client must support."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    def has_reader_feature(self, name: str) -> bool:
        """Whether the feature is listed for readers, so that writers may use it."""
        return self.min_reader_version >= 3 and name in (self.reader_features or ())

    def has_feature(self, name: str) -> bool:
        """Whether files may use a feature. Either list is enough: Delta 3.1, given versions 3 and 7, lists column
        mapping for writers only."""
        named_for_writers = self.min_writer_version >= 7 and name in (self.writer_features or ())
        return named_for_writers or self.has_reader_feature(name)


class Format(msgspec.Struct, frozen=True):
    provider: str = "parquet"
    options: dict[str, str | None] = {}


class Metadata(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The table's schema, partition columns and properties."""

    id: str = ""
    name: str | None = None
    description: str | None = None
    format: Format | None = None
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str | None] = {}
    created_time: int | None = None


class Transaction(msgspec.Struct, frozen=True, rename="camel"):
    """The last version that an application recorded in the table."""

    app_id: str
    version: int
    last_updated: int | None = None


class DomainMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration of a named domain; a tombstone if `removed`."""

    domain: str
    configuration: str
    removed: bool = False


class Add(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A file of the table. `path` is as written in the log: a URI, relative to the table or absolute."""

    path: str
    partition_values: dict[str, str | None]
    """Serialised, by physical name."""
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None


class Remove(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A file removed from the table."""

    path: str
    data_change: bool
    deletion_timestamp: int | None = None
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


class AddCdc(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A file of rows that a commit changed."""

    path: str
    partition_values: dict[str, str | None]
    size: int
    data_change: bool
    tags: dict[str, str | None] | None = None


_KEYS: dict[type[msgspec.Struct], str] = {
    Protocol: "protocol",
    Metadata: "metaData",
    Transaction: "txn",
    DomainMetadata: "domainMetadata",
    Add: "add",
    Remove: "remove",
    AddCdc: "cdc",
}

Action = Protocol | Metadata | Transaction | DomainMetadata | Add | Remove | AddCdc


def encode_actions(actions: Iterable[Action]) -> bytes:
    """Encode actions as the lines of a log file."""
    return msgspec.json.Encoder().encode_lines({_KEYS[type(action)]: _written(action)} for action in actions)


def _written(action: Action) -> Any:
    """Omit nulls, which the structs of file actions do by themselves."""
    if isinstance(action, Add | Remove | AddCdc):
        return action
    return {name: value for name, value in msgspec.to_builtins(action).items() if value is not None}


def to_action(raw: dict[str, Any], action: type[_Action], path: str) -> _Action:
    """Convert a batch cell or JSON object to an action. Raises `CorruptTableError` naming the log at `path`."""
    try:
        return msgspec.convert({name: value for name, value in raw.items() if value is not None}, action)
    except msgspec.ValidationError as error:
        raise CorruptTableError(f"the log holds an invalid {action.__name__} action: {error}", path=path) from error


@dataclass
class TableState:
    """The newest action of each kind; filled newest first, so existing entries win."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, Transaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    def add_older(self, batch: pa.RecordBatch, files: Sequence[FileStatus]) -> None:
        """Add the actions of a batch older than all previous ones: of the first of the files, or of those that its
        `FILE_INDEX` names, the newest of which comes first."""
        for raw, path in _actions(batch, "protocol", files):
            self.protocol = self.protocol or to_action(raw, Protocol, path)
        for raw, path in _actions(batch, "metaData", files):
            self.metadata = self.metadata or to_action(_with_dicts(raw), Metadata, path)
        for raw, path in _actions(batch, "txn", files):
            transaction = to_action(raw, Transaction, path)
            self.transactions.setdefault(transaction.app_id, transaction)
        for raw, path in _actions(batch, "domainMetadata", files):
            domain = to_action(raw, DomainMetadata, path)
            self.domains.setdefault(domain.domain, domain)

    def require(self, root: str) -> tuple[Protocol, Metadata]:
        """Return protocol and metadata. Raises `CorruptTableError` if the log at `root` lacks either."""
        if self.protocol is None:
            raise CorruptTableError("no protocol found in the table's log; restore its first commits", path=root)
        if self.metadata is None:
            raise CorruptTableError("no metadata found in the table's log; restore its first commits", path=root)
        return self.protocol, self.metadata

    def over(self, older: TableState) -> TableState:
        """Combine this state, of a run of commits, with an older one."""
        return TableState(
            self.protocol or older.protocol,
            self.metadata or older.metadata,
            older.transactions | self.transactions,
            older.domains | self.domains,
        )


def _actions(batch: pa.RecordBatch, name: str, files: Sequence[FileStatus]) -> list[tuple[dict[str, Any], str]]:
    """The actions of one kind in a batch and the paths of their files: file by file, and last first, since the newest
    comes last in its file."""
    column = batch.column(name)
    if column.null_count == len(column):
        return []
    actions = column.drop_null().to_pylist()
    numbers = [0] * len(actions)
    if FILE_INDEX.name in batch.schema.names:
        numbers = batch.column(FILE_INDEX.name).filter(column.is_valid()).to_pylist()
    numbered = zip(reversed(numbers), reversed(actions), strict=True)
    ordered = sorted(numbered, key=itemgetter(0))
    return [(row, files[number].path) for number, row in ordered if any(value is not None for value in row.values())]


def _with_dicts(raw: dict[str, Any]) -> dict[str, Any]:
    """Convert maps, which Arrow returns as pairs, to dicts."""
    fixed = dict(raw)
    fixed["configuration"] = dict(raw["configuration"] or ())
    if raw["format"] is not None:
        fixed["format"] = {
            "provider": raw["format"]["provider"] or "parquet",
            "options": dict(raw["format"]["options"] or ()),
        }
    return fixed
