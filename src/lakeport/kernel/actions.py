"""The actions of the log as values, and the Arrow types in which an engine reads them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from lakeport.errors import CorruptTableError

_Action = TypeVar("_Action", bound=msgspec.Struct)
_TEXT_MAP = pa.map_(pa.string(), pa.string())
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
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXT_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _TEXT_LIST),
            ("configuration", _TEXT_MAP),
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


class Protocol(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a client must be able to do."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    def has_reader_feature(self, name: str) -> bool:
        return self.min_reader_version >= 3 and name in (self.reader_features or ())


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
    """The last version of an application's own work that the table holds."""

    app_id: str
    version: int
    last_updated: int | None = None


class DomainMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration of a named domain; a tombstone if `removed`."""

    domain: str
    configuration: str
    removed: bool = False


def to_action(raw: dict[str, Any], action: type[_Action], path: str) -> _Action:
    """The action in a cell of a batch or an object of JSON. Raises `CorruptTableError`, naming the log at `path`."""
    try:
        return msgspec.convert({name: value for name, value in raw.items() if value is not None}, action)
    except msgspec.ValidationError as error:
        raise CorruptTableError(f"the log holds an invalid {action.__name__} action: {error}", path=path) from error
