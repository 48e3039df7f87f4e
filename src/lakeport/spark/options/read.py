"""Read options, with the names used by Delta's own connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

import msgspec
from msgspec.structs import fields

from lakeport.client.rest.pages import FORMATS
from lakeport.frame import Changes, Frame, open_source
from lakeport.kernel.schema import CHANGE_COLUMNS, StructType, format_column_list, parse_column_list
from lakeport.sharing.names import is_table_url
from lakeport.source import TableSource
from lakeport.spark.options.parsing import Flag, Form, Number, Options, Positive, Size, number, word

_CONF = "spark.delta.sharing.streaming."
"""Prefix of settings in the JVM connector. Spark does not pass settings to Python sources: here they are options, with
or without the prefix."""


def _starting_version(text: str) -> int | Literal["latest"] | None:
    return "latest" if text.lower() == "latest" else number(text)


def _columns(text: str) -> tuple[str, ...] | None:
    return tuple(format_column_list((path,)) for path in parse_column_list(text)) or None


class ProfileOptions(Options, frozen=True, kw_only=True):
    """The fields of an inline profile."""

    share_credentials_version: str | None = None
    type: str | None = None
    endpoint: str | None = None
    bearer_token: str | None = None
    expiration_time: str | None = None
    token_endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    username: str | None = None
    password: str | None = None
    issuer: str | None = None
    audience: str | None = None
    private_key_file: str | None = None
    key_id: str | None = None
    algorithm: str | None = None

    @property
    def profile(self) -> dict[str, str]:
        """Empty if the profile is in a file. The version is optional: a credential type implies version 2."""
        named = {field.encode_name: getattr(self, field.name) for field in fields(ProfileOptions)}
        profile = {name: value for name, value in named.items() if value is not None}
        version = "2" if "type" in profile else "1"
        return {"shareCredentialsVersion": version, **profile} if profile else {}


class SharingOptions(ProfileOptions, frozen=True, kw_only=True):
    """Options for shared tables only."""

    response_format: Annotated[Literal["parquet", "delta"], word("parquet", "delta")] = "delta"
    max_versions_per_rpc: Positive = None
    query_table_version_interval_seconds: Number = None
    caller_org: str | None = None
    cache: str | None = None


class ReadOptions(SharingOptions, frozen=True, kw_only=True):
    """`parse` raises `ValueError` for invalid options."""

    path: str = ""
    """A path, or `profile#share.schema.table`; with an inline profile, just `share.schema.table`."""
    columns: Annotated[tuple[str, ...] | None, Form("a list of columns, as 'id, day'", _columns)] = None
    push_filters: Flag = False
    """Whether to accept Spark's pushed filters; see `lakeport.spark.formats.FilteringReader`."""
    version_as_of: Number = None
    timestamp_as_of: str | None = None
    read_change_feed: Flag = False
    read_change_data: Flag = False
    starting_version: Annotated[int | Literal["latest"] | None, Form("a number or latest", _starting_version)] = None
    starting_timestamp: str | None = None
    ending_version: Number = None
    ending_timestamp: str | None = None
    max_files_per_trigger: Positive = None
    max_bytes_per_trigger: Size = None
    ignore_deletes: Flag = False
    ignore_changes: Flag = False
    skip_change_commits: Flag = False
    storage_options: Mapping[str, str] = msgspec.field(default_factory=dict, name="storage.")

    @classmethod
    def parse(cls, options: Mapping[str, str], *, sharing: bool) -> Self:
        """Parse options of the format `deltaSharing` or `lakeport`."""
        parsed = cls.read(_without_prefix(options), without=() if sharing else fields(SharingOptions))
        parsed._check_path(sharing)
        parsed._check()
        return parsed

    @property
    def change_feed(self) -> bool:
        return self.read_change_feed or self.read_change_data

    def _check_path(self, sharing: bool) -> None:
        if not self.path:
            what = "profile#share.schema.table" if sharing else "the path of a table"
            raise ValueError(f"no table was given: load({what!r})")
        if is_table_url(self.path) and self.profile:
            raise ValueError(f"{self.path!r} names a profile, and so do the options: give only one of them")
        if sharing and not is_table_url(self.path) and self.endpoint is None:
            raise ValueError(
                f"{self.path!r} is not a shared table: write profile#share.schema.table, or give the profile as "
                "options (endpoint, bearerToken …)"
            )

    def _check(self) -> None:
        if self.version_as_of is not None and self.timestamp_as_of is not None:
            raise ValueError("give versionAsOf or timestampAsOf, not both")
        if self.starting_version is not None and self.starting_timestamp is not None:
            raise ValueError("give startingVersion or startingTimestamp, not both")
        if self.ending_version is not None and self.ending_timestamp is not None:
            raise ValueError("give endingVersion or endingTimestamp, not both")
        if self.change_feed and (self.version_as_of is not None or self.timestamp_as_of is not None):
            raise ValueError("readChangeFeed reads a range of versions: give startingVersion, not versionAsOf")
        if self.query_table_version_interval_seconds is not None and self.query_table_version_interval_seconds < 10:
            raise ValueError("queryTableVersionIntervalSeconds must be 10 or more, to spare the server")

    def open(self) -> Frame:
        """The table. Reads nothing yet."""
        frame = Frame.of(self._source())
        if self.version_as_of is not None or self.timestamp_as_of is not None:
            frame = frame.at(version=self.version_as_of, timestamp=self.timestamp_as_of)
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
            raise ValueError("a range of versions needs readChangeFeed or a stream; for one version, give versionAsOf")
        return frame

    def _source(self) -> TableSource:
        return open_source(
            self.path,
            profile=self.profile or None,
            storage_options=self.storage_options,
            cache=self.cache,
            formats=("parquet",) if self.response_format == "parquet" else FORMATS,
            caller_org=self.caller_org,
        )


def _without_prefix(options: Mapping[str, str]) -> dict[str, str]:
    return {key[len(_CONF) :] if key.lower().startswith(_CONF) else key: value for key, value in options.items()}
