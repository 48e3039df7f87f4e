"""The options of a read, as Spark's users write them: the names are those of Delta's own connectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, Self

from lakeport.client.opening import open_server, open_table
from lakeport.client.options import ClientOptions
from lakeport.client.table_pages import FORMATS
from lakeport.engine import default_engine
from lakeport.frame import Changes, Frame
from lakeport.kernel.change_files import CHANGE_COLUMNS
from lakeport.kernel.schema import StructType
from lakeport.sharing.names import is_table_url, parse_table_name, parse_table_url
from lakeport.source import PathTable

_STORAGE = "storage."
"""Before the name of an option of obstore."""
_CONF = "spark.delta.sharing.streaming."
"""Before the names of settings of the JVM connector. Spark shows no settings to sources in Python: here they are options,
with or without this."""
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
_UNITS = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Raises `ValueError` for what makes no sense, when it is made by `parse`."""

    target: str
    """A path, or `profile#share.schema.table`; with a profile, `share.schema.table` alone."""
    columns: tuple[str, ...] | None = None
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
        """What was given for the format `deltaSharing`, or for `lakeport`."""
        known = (*_READING, *_SHARING) if sharing else _READING
        given = _known(options, known)
        read = _Reader(given)
        parsed = cls(
            target=read.target(sharing),
            columns=read.names("columns"),
            version=read.number("versionAsOf"),
            timestamp=given.get("timestampAsOf"),
            change_feed=read.flag("readChangeFeed") or read.flag("readChangeData"),
            starting_version="latest" if read.is_latest("startingVersion") else read.number("startingVersion"),
            starting_timestamp=given.get("startingTimestamp"),
            ending_version=read.number("endingVersion"),
            ending_timestamp=given.get("endingTimestamp"),
            max_files_per_trigger=read.number("maxFilesPerTrigger", least=1),
            max_bytes_per_trigger=read.size("maxBytesPerTrigger"),
            ignore_deletes=read.flag("ignoreDeletes"),
            ignore_changes=read.flag("ignoreChanges"),
            skip_change_commits=read.flag("skipChangeCommits"),
            response_format=read.response_format(),
            max_versions_per_rpc=read.number("maxVersionsPerRpc", least=1),
            query_interval_seconds=read.number("queryTableVersionIntervalSeconds"),
            caller_org=given.get("callerOrg"),
            cache=given.get("cache"),
            profile={name: given[name] for name in _PROFILE if name in given},
            storage_options=_storage_options(options),
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
        """The table. Nothing is read yet."""
        frame = Frame(self._source())
        if self.version is not None or self.timestamp is not None:
            frame = frame.at(version=self.version, timestamp=self.timestamp)
        return frame if self.columns is None else frame.select(*self.columns)

    def schema(self) -> StructType:
        """The columns of what is read, by a batch or by a stream: Spark does not say which of them asks."""
        if not self.change_feed:
            return self.open().selected
        if self.ending_version is not None or self.ending_timestamp is not None:
            return self.open_batch().selected
        return StructType((*self.open().selected, *CHANGE_COLUMNS))

    def open_batch(self) -> Frame | Changes:
        """The rows of a batch read. Raises `ValueError` for options that only a stream, or a change feed, has."""
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


class _Reader:
    """Values of options, each an error with its name if it is not what it should be."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def target(self, sharing: bool) -> str:
        target = self._given.get("path", "")
        if not target:
            what = "profile#share.schema.table" if sharing else "the path of a table"
            raise ValueError(f"no table was given: load({what!r})")
        if sharing and not is_table_url(target) and "endpoint" not in self._given:
            raise ValueError(
                f"{target!r} names no shared table: write profile#share.schema.table, or give the profile by the "
                "options endpoint, bearerToken …"
            )
        return target

    def number(self, name: str, least: int = 0) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.strip().isdigit()) or int(text) < least:
            raise ValueError(f"the option {name} is a number, {least} or more, not {text!r}")
        return int(text)

    def is_latest(self, name: str) -> bool:
        return self._given.get(name, "").lower() == "latest"

    def size(self, name: str) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        digits = text.strip().lower().rstrip("bkmgt")
        unit = text.strip().lower()[len(digits) :] or "b"
        if not (digits.isascii() and digits.isdigit()) or unit not in _UNITS or int(digits) < 1:
            raise ValueError(f"the option {name} is a size such as 10g or 500m, not {text!r}")
        return int(digits) * _UNITS[unit]

    def flag(self, name: str) -> bool:
        text = self._given.get(name, "false").lower()
        if text not in ("true", "false"):
            raise ValueError(f"the option {name} is true or false, not {text!r}")
        return text == "true"

    def names(self, name: str) -> tuple[str, ...] | None:
        text = self._given.get(name)
        if text is None:
            return None
        columns = tuple(part.strip() for part in text.split(",") if part.strip())
        if not columns:
            raise ValueError(f"the option {name} is a list of columns, as 'id, day', not {text!r}")
        return columns

    def response_format(self) -> Literal["delta", "parquet"]:
        text = self._given.get("responseFormat", "delta").lower()
        if text == "delta":
            return "delta"
        if text == "parquet":
            return "parquet"
        raise ValueError(f"the option responseFormat is delta or parquet, not {text!r}")


def _known(options: Mapping[str, str], known: tuple[str, ...]) -> dict[str, str]:
    """The options by the names that they have here, whatever their case. Raises `ValueError` for one of no meaning."""
    names = {name.lower(): name for name in known}
    given = {}
    for key, value in options.items():
        name = key.lower().removeprefix(_CONF)
        if name.startswith(_STORAGE):
            continue
        if name not in names:
            near = get_close_matches(name, names, 1, 0.6)
            advice = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(known)} and storage.…"
            raise ValueError(f"there is no option {key!r}: {advice}")
        given[names[name]] = value
    return given


def _storage_options(options: Mapping[str, str]) -> dict[str, str]:
    return {key[len(_STORAGE) :]: value for key, value in options.items() if key.lower().startswith(_STORAGE)}
