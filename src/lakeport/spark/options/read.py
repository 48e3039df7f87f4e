"""Read options, with the names used by Delta's own connectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from lakeport.client.opening import open_server, open_table
from lakeport.client.options import ClientOptions
from lakeport.client.rest.pages import FORMATS
from lakeport.engine import default_engine
from lakeport.frame import Changes, Frame
from lakeport.kernel.schema import CHANGE_COLUMNS, StructType, format_column_list, parse_column_list
from lakeport.sharing.names import is_table_url, parse_table_name, parse_table_url
from lakeport.source import PathTable
from lakeport.spark.options.given import GivenOptions

_CONF = "spark.delta.sharing.streaming."
"""Prefix of settings in the JVM connector. Spark does not pass settings to Python sources: here they are options, with
or without the prefix."""
_PROFILE = (
    "shareCredentialsVersion",
    "type",
    "endpoint",
    "bearerToken",
    "expirationTime",
    "tokenEndpoint",
    "clientId",
    "clientSecret",
    "scope",
    "username",
    "password",
    "issuer",
    "audience",
    "privateKeyFile",
    "keyId",
    "algorithm",
)
_READING = (
    "path",
    "columns",
    "pushFilters",
    "versionAsOf",
    "timestampAsOf",
    "readChangeFeed",
    "readChangeData",
    "startingVersion",
    "startingTimestamp",
    "endingVersion",
    "endingTimestamp",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreDeletes",
    "ignoreChanges",
    "skipChangeCommits",
)
_SHARING = ("responseFormat", "maxVersionsPerRpc", "callerOrg", "queryTableVersionIntervalSeconds", "cache", *_PROFILE)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """`parse` raises `ValueError` for invalid options."""

    target: str
    """A path, or `profile#share.schema.table`; with a profile, just `share.schema.table`."""
    columns: tuple[str, ...] | None = None
    push_filters: bool = False
    """Whether to accept Spark's pushed filters; see `lakeport.spark.formats.batch.FilteringReader`."""
    version: int | None = None
    timestamp: str | None = None
    change_feed: bool = False
    starting_version: int | Literal["latest"] | None = None
    starting_timestamp: str | None = None
    ending_version: int | None = None
    ending_timestamp: str | None = None
    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    response_format: Literal["delta", "parquet"] = "delta"
    max_versions_per_rpc: int | None = None
    query_interval_seconds: int | None = None
    caller_org: str | None = None
    cache: str | None = None
    profile: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, sharing: bool) -> Self:
        """Parse options of the format `deltaSharing` or `lakeport`."""
        known = (*_READING, *_SHARING) if sharing else _READING
        given = GivenOptions(_without_prefix(options), known)
        parsed = cls(
            target=_target(given, sharing),
            columns=_columns(given),
            push_filters=given.flag("pushFilters"),
            version=given.number("versionAsOf"),
            timestamp=given.text("timestampAsOf"),
            change_feed=given.flag("readChangeFeed") or given.flag("readChangeData"),
            starting_version=_starting_version(given),
            starting_timestamp=given.text("startingTimestamp"),
            ending_version=given.number("endingVersion"),
            ending_timestamp=given.text("endingTimestamp"),
            max_files_per_trigger=given.number("maxFilesPerTrigger", least=1),
            max_bytes_per_trigger=given.size("maxBytesPerTrigger"),
            ignore_deletes=given.flag("ignoreDeletes"),
            ignore_changes=given.flag("ignoreChanges"),
            skip_change_commits=given.flag("skipChangeCommits"),
            response_format=given.word("responseFormat", ("parquet", "delta")),
            max_versions_per_rpc=given.number("maxVersionsPerRpc", least=1),
            query_interval_seconds=given.number("queryTableVersionIntervalSeconds"),
            caller_org=given.text("callerOrg"),
            cache=given.text("cache"),
            profile=_inline_profile(given),
            storage_options=given.storage_options,
        )
        parsed._check()
        return parsed

    def _check(self) -> None:
        if self.version is not None and self.timestamp is not None:
            raise ValueError("give versionAsOf or timestampAsOf, not both")
        if self.starting_version is not None and self.starting_timestamp is not None:
            raise ValueError("give startingVersion or startingTimestamp, not both")
        if self.ending_version is not None and self.ending_timestamp is not None:
            raise ValueError("give endingVersion or endingTimestamp, not both")
        if self.change_feed and (self.version is not None or self.timestamp is not None):
            raise ValueError("readChangeFeed reads a range of versions: give startingVersion, not versionAsOf")
        if self.query_interval_seconds is not None and self.query_interval_seconds < 10:
            raise ValueError("queryTableVersionIntervalSeconds must be 10 or more, so that the server is not overrun")

    def open(self) -> Frame:
        """The table. Reads nothing yet."""
        frame = Frame(self._source())
        if self.version is not None or self.timestamp is not None:
            frame = frame.at(version=self.version, timestamp=self.timestamp)
        return frame if self.columns is None else frame.select(*self.columns)

    def schema(self) -> StructType:
        """The columns of a batch or stream read: Spark does not reveal which one asks."""
        if not self.change_feed:
            return self.open().selected
        if self.ending_version is not None or self.ending_timestamp is not None:
            return self.open_batch().selected
        return StructType((*self.open().selected, *CHANGE_COLUMNS))

    def open_batch(self) -> Frame | Changes:
        """The rows of a batch read; stream limits are ignored. Raises `ValueError` for starting versions without a
        change feed."""
        frame = self.open()
        if self.change_feed:
            if self.starting_version == "latest":
                raise ValueError("startingVersion 'latest' is for streams: give a number")
            if self.starting_version is None and self.starting_timestamp is None:
                raise ValueError("readChangeFeed needs startingVersion or startingTimestamp")
            return frame.changes(
                self.starting_version,
                self.ending_version,
                start_timestamp=self.starting_timestamp,
                end_timestamp=self.ending_timestamp,
            )
        starts = self.starting_version is not None or self.starting_timestamp is not None
        if starts or self.ending_version is not None or self.ending_timestamp is not None:
            raise ValueError(
                "a range of versions is read with readChangeFeed, or as a stream; for one version give versionAsOf"
            )
        return frame

    def _source(self) -> Any:
        if not self.profile and not is_table_url(self.target):
            return PathTable(default_engine(self.storage_options), self.target)
        formats = ("parquet",) if self.response_format == "parquet" else FORMATS
        options = ClientOptions(
            storage_options=self.storage_options, cache=self.cache, formats=formats, caller_org=self.caller_org
        )
        url = None if self.profile else parse_table_url(self.target)
        profile: Any = self.profile if url is None else url.profile
        name = parse_table_name(self.target) if url is None else url.name
        server = open_server(profile, options)
        return open_table(server, name, options)


def _target(given: GivenOptions, sharing: bool) -> str:
    target = given.text("path") or ""
    if not target:
        what = "profile#share.schema.table" if sharing else "the path of a table"
        raise ValueError(f"no table was given: load({what!r})")
    if is_table_url(target) and given.some(_PROFILE):
        raise ValueError(f"{target!r} names a profile, and options are one too: give only one of them")
    if sharing and not is_table_url(target) and given.text("endpoint") is None:
        raise ValueError(
            f"{target!r} names no shared table: write profile#share.schema.table, or give the profile by the options "
            "endpoint, bearerToken …"
        )
    return target


def _inline_profile(given: GivenOptions) -> dict[str, str]:
    """Empty if the profile is in a file. The version is optional: a credential type implies version 2."""
    profile = given.some(_PROFILE)
    version = "2" if "type" in profile else "1"
    return {"shareCredentialsVersion": version, **profile} if profile else {}


def _starting_version(given: GivenOptions) -> int | Literal["latest"] | None:
    is_latest = (given.text("startingVersion") or "").lower() == "latest"
    return "latest" if is_latest else given.number("startingVersion")


def _columns(given: GivenOptions) -> tuple[str, ...] | None:
    text = given.text("columns")
    if text is None:
        return None
    paths = parse_column_list(text)
    if not paths:
        raise ValueError(f"the option columns is a list of columns, as 'id, day', not {text!r}")
    return tuple(format_column_list((path,)) for path in paths)


def _without_prefix(options: Mapping[str, str]) -> dict[str, str]:
    return {key[len(_CONF) :] if key.lower().startswith(_CONF) else key: value for key, value in options.items()}
