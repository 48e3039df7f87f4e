"""The table properties that the kernel knows: their types, defaults and valid values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from lakeport.errors import CorruptTableError
from lakeport.kernel.schema import parse_column_list

Configuration = Mapping[str, str | None]
_T = TypeVar("_T")

CONSTRAINT_PREFIX = "delta.constraints."
FEATURE_PREFIX = "delta.feature."

_MICROSECONDS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_INTERVAL_PART = re.compile(rf"([+-]?\d+(?:\.\d+)?)\s*({'|'.join(_MICROSECONDS)})s?(?:\s+|$)")
_SIZE = re.compile(r"(\d+)\s*(?:([kmgt]?)b?)")


@dataclass(frozen=True, slots=True)
class Property(Generic[_T]):
    """A table property. `parse` raises `ValueError` for invalid text."""

    name: str
    default: _T
    parse: Callable[[str], _T]
    valid: str
    """A description of valid values, for messages."""

    def of(self, configuration: Configuration, *, path: str | None = None) -> _T:
        """The value in a table's properties, for readers and writers. Raises `ValueError` for an invalid one, or
        `CorruptTableError` for a reader, which passes the table's `path`."""
        text = configuration.get(self.name)
        try:
            return self.default if text is None else self.check(text)
        except ValueError as error:
            if path is None:
                raise
            raise CorruptTableError(str(error), path=path) from error

    def check(self, text: str) -> _T:
        try:
            return self.parse(text)
        except ValueError as error:
            raise ValueError(f"{self.name} is {text!r}: it must be {self.valid}") from error


def parse_interval(text: str) -> int:
    """Parse an interval such as `interval 30 days` or `1 week 2 hours` to milliseconds.

    Raises `ValueError` for other text, a negative interval, and months and years, which vary in length."""
    rest = text.strip().lower().removeprefix("interval ").strip()
    total, position = Fraction(0), 0
    while match := _INTERVAL_PART.match(rest, position):
        total += Fraction(match[1]) * _MICROSECONDS[match[2]]
        position = match.end()
    if not rest or position < len(rest) or total < 0:
        raise ValueError(f"{text!r} is not an interval")
    return int(total // 1000)


def parse_size(text: str) -> int:
    """Parse a number of bytes such as `134217728`, `128mb` or `1g`. Raises `ValueError` for other text and for 0."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a size")
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _parse_int(least: int, greatest: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if number < least or (greatest is not None and number > greatest):
            raise ValueError(text)
        return number

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        found = next((choice for choice in choices if choice.lower() == text.lower()), None)
        if found is None:
            raise ValueError(text)
        return found

    return parse


def _exactly(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


def _flag(name: str, default: bool = False) -> Property[bool]:
    return Property(f"delta.{name}", default, _parse_bool, "true or false")


def _stored_column(what: str) -> Property[str | None]:
    return Property(f"delta.rowTracking.materialized{what}ColumnName", None, str, "a column of data files")


_AN_INTERVAL = "an interval such as 'interval 7 days'; months and years have no fixed length"
_WEEK = 7 * 86_400_000

APPEND_ONLY = _flag("appendOnly")
_AUTO_OPTIMIZE = _flag("autoOptimize")
_AUTO_COMPACT = Property(
    "delta.autoOptimize.autoCompact",
    "",
    _one_of("true", "auto", "legacy", "false"),
    "true, auto or legacy (which all mean the same here), or false",
)
_OPTIMIZE_WRITE: Property[bool | None] = Property(
    "delta.autoOptimize.optimizeWrite", None, _parse_bool, "true or false"
)
ENABLE_CHANGE_DATA_FEED = _flag("enableChangeDataFeed")
ENABLE_DELETION_VECTORS = _flag("enableDeletionVectors")
ENABLE_EXPIRED_LOG_CLEANUP = _flag("enableExpiredLogCleanup", default=True)
ENABLE_ICEBERG_COMPAT_V1 = _flag("enableIcebergCompatV1")
ENABLE_ICEBERG_COMPAT_V2 = _flag("enableIcebergCompatV2")
ENABLE_IN_COMMIT_TIMESTAMPS = _flag("enableInCommitTimestamps")
ENABLE_ROW_TRACKING = _flag("enableRowTracking")
ENABLE_TYPE_WIDENING = _flag("enableTypeWidening")
ENABLE_VARIANT_SHREDDING = _flag("enableVariantShredding")
ROW_TRACKING_SUSPENDED = _flag("rowTrackingSuspended")
CHECKPOINT_STATS_AS_JSON = _flag("checkpoint.writeStatsAsJson", default=True)
CHECKPOINT_STATS_AS_STRUCT = _flag("checkpoint.writeStatsAsStruct")
"""Off by default, per the protocol (section "Checkpoints"); Delta's Spark library defaults to on."""

CHECKPOINT_INTERVAL = Property("delta.checkpointInterval", 10, _parse_int(1), "a number of commits, at least 1")
CHECKPOINT_POLICY = Property("delta.checkpointPolicy", "classic", _exactly("classic", "v2"), "classic or v2")
COLUMN_MAPPING_MODE = Property(
    "delta.columnMapping.mode", "none", _one_of("none", "name", "id"), "none, name or id, in lower case"
)
COLUMN_MAPPING_MAX_ID = Property("delta.columnMapping.maxColumnId", 0, _parse_int(0), "a number, at least 0")
COMPRESSION = Property(
    "delta.parquet.compression.codec",
    "snappy",
    _one_of("uncompressed", "snappy", "gzip", "zstd"),
    "uncompressed, snappy, gzip or zstd",
)
DELETED_FILE_RETENTION = Property("delta.deletedFileRetentionDuration", _WEEK, parse_interval, _AN_INTERVAL)
INDEXED_COLUMNS = Property(
    "delta.dataSkippingNumIndexedCols", 32, _parse_int(-1), "a number of columns, or -1 for all of them"
)
STATS_COLUMNS: Property[tuple[tuple[str, ...], ...] | None] = Property(
    "delta.dataSkippingStatsColumns", None, parse_column_list, "columns with commas between them"
)
ISOLATION_LEVEL = Property(
    "delta.isolationLevel",
    "WriteSerializable",
    _one_of("WriteSerializable", "Serializable"),
    "WriteSerializable or Serializable",
)
LOG_RETENTION = Property("delta.logRetentionDuration", 30 * 86_400_000, parse_interval, _AN_INTERVAL)
MIN_READER_VERSION = Property("delta.minReaderVersion", 1, _parse_int(1, 3), "a number from 1 to 3")
MIN_WRITER_VERSION = Property("delta.minWriterVersion", 1, _parse_int(1, 7), "a number from 1 to 7")
TARGET_FILE_SIZE = Property("delta.targetFileSize", 128 << 20, parse_size, "a number of bytes, or a size such as 128mb")
TRANSACTION_RETENTION: Property[int | None] = Property(
    "delta.setTransactionRetentionDuration", None, parse_interval, _AN_INTERVAL
)
ROW_ID_COLUMN = _stored_column("RowId")
ROW_COMMIT_VERSION_COLUMN = _stored_column("RowCommitVersion")
TIMESTAMPS_SINCE_VERSION = Property(
    "delta.inCommitTimestampEnablementVersion", 0, lambda text: int(text or 0), "a version"
)
TIMESTAMPS_SINCE: Property[int | None] = Property(
    "delta.inCommitTimestampEnablementTimestamp",
    None,
    lambda text: int(text) if text else None,
    "milliseconds since the epoch",
)
TIMESTAMP_ENABLEMENT = (TIMESTAMPS_SINCE_VERSION.name, TIMESTAMPS_SINCE.name)
"""Since when all commits have in-commit timestamps, in a table that has older ones."""

_KNOWN = {known.name: known for known in tuple(vars().values()) if isinstance(known, Property)}
"""All properties above, by name."""
_FOR_OTHERS = {
    "delta.checkpointRetentionDuration",
    "delta.dataSkippingStringPrefixLength",
    "delta.dropFeatureTruncateHistory.retentionDuration",
    "delta.enableFullRetentionRollback",
    "delta.parquet.format.version",
    "delta.randomPrefixLength",
    "delta.randomizeFilePrefixes",
    "delta.sampleRetentionDuration",
    "delta.tuneFileSizesForRewrites",
}
"""Valid properties that only other writers use."""
_KEPT_BY_WRITERS = {
    COLUMN_MAPPING_MAX_ID.name,
    ROW_COMMIT_VERSION_COLUMN.name,
    ROW_ID_COLUMN.name,
    *TIMESTAMP_ENABLEMENT,
}


def compacts_after_writes(configuration: Configuration) -> bool:
    """Whether writers are to compact small files. `delta.autoOptimize` is the older name of this and of
    `gathers_rows`."""
    return (_AUTO_COMPACT.of(configuration) or str(_AUTO_OPTIMIZE.of(configuration)).lower()) != "false"


def gathers_rows(configuration: Configuration) -> bool:
    """Whether writers are to gather the rows of a partition into few files."""
    own = _OPTIMIZE_WRITE.of(configuration)
    return _AUTO_OPTIMIZE.of(configuration) if own is None else own


def check_properties(properties: Mapping[str, str]) -> None:
    """Raises `ValueError` for properties that must not be set: unknown `delta.` names or invalid values.

    Only for properties that a caller sets: a table may already have some from newer writers."""
    for name, value in properties.items():
        if not isinstance(value, str):
            raise ValueError(f"the table property {name} is {value!r}: it must be text, such as {str(value)!r}")
        if name.lower().startswith("delta."):
            _check_property(name, value)


def check_removable(names: Iterable[str], configuration: Configuration) -> None:
    """Raises `ValueError` for properties that cannot be unset: missing ones, or those maintained by writers."""
    for name in names:
        if name not in configuration:
            raise ValueError(f"the table has no property {name}; it has {', '.join(sorted(configuration)) or 'none'}")
        if name in _KEPT_BY_WRITERS:
            raise ValueError(f"the table property {name} is managed by writers: it cannot be removed")


def _check_property(name: str, value: str) -> None:
    if name.startswith(FEATURE_PREFIX):
        Property(name, "", _exactly("supported", "enabled"), "'supported'").check(value)
    elif name in _KEPT_BY_WRITERS:
        raise ValueError(f"the table property {name} is managed by writers: it cannot be set")
    elif name in _KNOWN:
        known = _KNOWN[name]
        if known.check(value) != value and known is COLUMN_MAPPING_MODE:  # for some readers it is case-sensitive
            raise ValueError(f"{name} is {value!r}: it must be {known.valid}")
    elif name not in _FOR_OTHERS and not name.startswith(CONSTRAINT_PREFIX):
        raise ValueError(f"unknown table property {name}: {_advice(name)}")


def _advice(name: str) -> str:
    if name.startswith("delta.universalFormat."):
        return "this version of Lakeport does not write other formats with each commit"
    spelled = spelled_property(name)
    return f"it is spelled {spelled}" if spelled != name else "Delta reserves names that begin with 'delta.'"


def spelled_property(name: str) -> str:
    """The canonical spelling of a property name in any case; the name itself if unknown."""
    return next((known for known in (*_KNOWN, *_FOR_OTHERS) if known.lower() == name.lower()), name)


def constraints_in(configuration: Configuration) -> dict[str, str]:
    """The SQL text of the CHECK constraints, by name."""
    return {
        name.removeprefix(CONSTRAINT_PREFIX): text
        for name, text in configuration.items()
        if name.startswith(CONSTRAINT_PREFIX) and text
    }


def features_in(configuration: Configuration) -> tuple[str, ...]:
    """The features requested by `delta.feature.` properties, as spelled there."""
    return tuple(name.removeprefix(FEATURE_PREFIX) for name in configuration if name.startswith(FEATURE_PREFIX))


def without_protocol_properties(configuration: Configuration) -> dict[str, str | None]:
    """The properties that a table stores, without those that only set its protocol."""
    asks = {MIN_READER_VERSION.name, MIN_WRITER_VERSION.name}
    return {n: v for n, v in configuration.items() if n not in asks and not n.startswith(FEATURE_PREFIX)}
