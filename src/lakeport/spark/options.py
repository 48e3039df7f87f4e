"""Parse Spark's options. Names are those of Delta's connectors and case-insensitive; values are text.

Spark passes neither a writer's `partitionBy` nor the case of option names. So a new table's partition columns are an
option here, and table properties are matched regardless of case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
from msgspec.structs import FieldInfo, fields

from lakeport.client.rest.pages import FORMATS
from lakeport.frame import Changes, Frame, open_source
from lakeport.kernel.definition import spelled_property
from lakeport.kernel.schema import CHANGE_COLUMNS, StructType, format_column_list, parse_column_list
from lakeport.sharing.names import is_table_url
from lakeport.source import TableSource

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
"""The power of two of each unit; a `b` may follow."""
_SIZE = re.compile(r"([0-9]+)\s*([kmgt]?)b?")


class Form(NamedTuple):
    """How an option is written. `read` returns None for any other text."""

    description: str
    read: Callable[[str], Any]


def word(*words: str) -> Form:
    """One of several words, in any case."""
    return Form(" or ".join(words), lambda text: text.lower() if text.lower() in words else None)


def number(text: str, least: int = 0) -> int | None:
    return int(text) if text.isascii() and text.strip().isdigit() and int(text) >= least else None


def _size(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip().lower())
    return int(found[1]) << _UNITS[found[2]] if found and int(found[1]) else None


Flag = Annotated[bool, Form("true or false", lambda text: {"true": True, "false": False}.get(text.lower()))]
Number = Annotated[int | None, Form("a number, 0 or more", number)]
Positive = Annotated[int | None, Form("a number, 1 or more", lambda text: number(text, 1))]
Size = Annotated[int | None, Form("a size such as 10g or 500m", _size)]


class Options(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Each field is an option. A field whose name ends with a dot collects all options with that prefix."""

    @classmethod
    def read(cls, given: Mapping[str, str], without: Collection[FieldInfo] = ()) -> Self:
        """Raises `ValueError` for unknown options and invalid values."""
        excluded = {field.name for field in without}
        known = {field.encode_name.lower(): field for field in fields(cls) if field.name not in excluded}
        values: dict[str, Any] = {}
        for name, text in given.items():
            first, dot, rest = name.partition(".")
            field = known.get(first.lower() + dot)
            if field is None:
                raise ValueError(f"unknown option {name!r}: {_advice(name, known)}")
            values[field.name] = {**values.get(field.name, {}), rest: text} if dot else _value(field, text)
        return cls(**values)

    def __repr__(self) -> str:
        """Without values: some are secrets."""
        return f"{type(self).__name__}(…)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same in Rich's tracebacks."""
        return []


def _value(field: FieldInfo, text: str) -> Any:
    form = next((data for data in getattr(field.type, "__metadata__", ()) if isinstance(data, Form)), None)
    if form is None:
        return text
    if (value := form.read(text)) is None:
        raise ValueError(f"the option {field.encode_name} must be {form.description}, not {text!r}")
    return value


def _advice(name: str, known: Mapping[str, FieldInfo]) -> str:
    names = {key: field.encode_name + "…" * key.endswith(".") for key, field in known.items()}
    if near := get_close_matches(name.lower(), names, 1, 0.6):
        return f"did you mean {names[near[0]]}?"
    return f"the options are {', '.join(names.values())}"


_CONF = "spark.delta.sharing.streaming."
"""Prefix of settings in the JVM connector. Spark does not pass settings to Python sources: here they are options, with
or without the prefix."""


def _starting_version(text: str) -> int | Literal["latest"] | None:
    return "latest" if text.lower() == "latest" else number(text)


def _column_names(text: str) -> tuple[str, ...] | None:
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
    columns: Annotated[tuple[str, ...] | None, Form("a list of columns, as 'id, day'", _column_names)] = None
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
            raise ValueError(f"{self.path!r} names a profile, and so do the options: pass only one of them")
        if sharing and not is_table_url(self.path) and self.endpoint is None:
            raise ValueError(
                f"{self.path!r} is not a shared table: write profile#share.schema.table, or pass the profile as "
                "options (endpoint, bearerToken …)"
            )

    def _check(self) -> None:
        if self.version_as_of is not None and self.timestamp_as_of is not None:
            raise ValueError("pass versionAsOf or timestampAsOf, not both")
        if self.starting_version is not None and self.starting_timestamp is not None:
            raise ValueError("pass startingVersion or startingTimestamp, not both")
        if self.ending_version is not None and self.ending_timestamp is not None:
            raise ValueError("pass endingVersion or endingTimestamp, not both")
        if self.change_feed and (self.version_as_of is not None or self.timestamp_as_of is not None):
            raise ValueError("readChangeFeed reads a range of versions: pass startingVersion, not versionAsOf")
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
                raise ValueError("startingVersion 'latest' is for streams: pass a number")
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
            raise ValueError("a range of versions needs readChangeFeed or a stream; for one version, pass versionAsOf")
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


def _partition_names(text: str) -> tuple[str, ...] | None:
    paths = parse_column_list(text)
    return None if any(len(path) > 1 for path in paths) else tuple(path[0] for path in paths)


class WriteOptions(Options, frozen=True, kw_only=True):
    """`parse` raises `ValueError` for invalid options."""

    path: Annotated[str, Form("the path of a table", str.strip)] = ""
    partition_by: Annotated[
        tuple[str, ...] | None, Form("a list of columns, as 'day, region' (put dots in backticks)", _partition_names)
    ] = None
    """None if not given: a new table is then unpartitioned, an existing one keeps its partitioning."""
    merge_schema: Flag = False
    overwrite_schema: Flag = False
    replace_where: str | None = None
    partition_overwrite_mode: Annotated[Literal["dynamic", "static"], word("dynamic", "static")] = "static"
    txn_app_id: str | None = None
    txn_version: Number = None
    checkpoint_location: str | None = None
    """Used only by Spark, like `query_name`; accepted so that it is not reported as unknown."""
    query_name: str | None = None
    delta: Mapping[str, str] = msgspec.field(default_factory=dict, name="delta.")
    storage_options: Mapping[str, str] = msgspec.field(default_factory=dict, name="storage.")

    @classmethod
    def parse(cls, options: Mapping[str, str], *, overwrite: bool, stream: bool = False) -> Self:
        """Parse write options; `overwrite` is Spark's flag for overwrite and complete mode."""
        parsed = cls.read(options)
        parsed._check()
        parsed._check_mode(overwrite)
        if stream:
            parsed._check_stream()
        elif (parsed.txn_app_id is None) != (parsed.txn_version is None):
            raise ValueError("txnAppId and txnVersion work only together: pass both")
        return parsed

    @property
    def application(self) -> tuple[str, int] | None:
        """The application id and version of a batch, if given."""
        return None if self.txn_app_id is None or self.txn_version is None else (self.txn_app_id, self.txn_version)

    @property
    def properties(self) -> dict[str, str]:
        """Table properties, for a new table."""
        return {spelled_property(f"delta.{name}"): value for name, value in self.delta.items()}

    @property
    def partitions(self) -> Literal["all", "dynamic"]:
        """The partitions that an overwrite replaces."""
        return "dynamic" if self.partition_overwrite_mode == "dynamic" else "all"

    def _check(self) -> None:
        if not self.path:
            raise ValueError("no table was given: save('the path of a table'), or the option path")
        if is_table_url(self.path):
            raise ValueError(f"{self.path!r} names a shared table, which can only be read: pass the path of a table")
        if self.txn_app_id == "":
            raise ValueError("the option txnAppId is empty: pass a name that no other application uses")

    def _check_mode(self, overwrite: bool) -> None:
        where = ("replaceWhere", self.replace_where is not None)
        dynamic = ("partitionOverwriteMode=dynamic", self.partitions == "dynamic")
        if not overwrite:
            _refuse("needs the mode overwrite", where, dynamic, ("overwriteSchema", self.overwrite_schema))
        if self.overwrite_schema:
            _refuse("cannot be combined with overwriteSchema", where, dynamic, ("mergeSchema", self.merge_schema))
        if self.replace_where is not None:
            _refuse("cannot be combined with replaceWhere", dynamic)

    def _check_stream(self) -> None:
        if self.txn_version is not None:
            raise ValueError("leave out txnVersion: a stream uses the number of each batch")
        if self.replace_where is not None or self.partitions == "dynamic":
            raise ValueError("a stream in complete mode replaces the whole table: leave out replaceWhere and dynamic")


def _refuse(why: str, *options: tuple[str, bool]) -> None:
    """Raises `ValueError` for the first option that is given."""
    for name, is_given in options:
        if is_given:
            raise ValueError(f"the option {name} {why}")
