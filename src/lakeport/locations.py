"""Paths and URLs of tables: the clouds' schemes in every spelling, and directories in buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import unquote_to_bytes


class Cloud(Enum):
    """The value names the pip extra with its libraries, and its section in the server's configuration."""

    AWS = "aws"
    AZURE = "azure"
    GCS = "gcs"


_CLOUDS = {"s3": Cloud.AWS, "gs": Cloud.GCS, "az": Cloud.AZURE, "abfss": Cloud.AZURE}
"""The clouds by the schemes that storage opens."""
_SPELLINGS = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "adl": "az"}
_SPELLINGS |= dict.fromkeys(("abfs", "wasb", "wasbs"), "abfss")
"""Other spellings of these schemes."""

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")  # a single letter is a drive
_STORE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://[^/]*")
_FILE = re.compile(r"file:(?://localhost(?=/))?/+", re.IGNORECASE)
_AZURE = re.compile(r"([^@]+)@([^.@]+)(?:\.(?:blob|dfs)\.(core\.windows\.net|fabric\.microsoft\.com))?", re.IGNORECASE)
"""`container@account`, with or without a domain that storage supports."""


def is_url(path: str) -> bool:
    """Whether a path has a scheme; otherwise it is a path on disk."""
    return _SCHEME.match(path) is not None


def scheme_of(path: str) -> str:
    """The scheme, in lower case and the spelling that storage opens; empty for a path on disk."""
    found = _SCHEME.match(path)
    scheme = found[1].lower() if found else ""
    return _SPELLINGS.get(scheme, scheme)


def cloud_of(path: str) -> Cloud | None:
    return _CLOUDS.get(scheme_of(path))


def respelled(path: str) -> str:
    """The path with the scheme as `scheme_of` spells it."""
    found = _SCHEME.match(path)
    return scheme_of(path) + path[found.end(1) :] if found else path


def store_root(path: str) -> str:
    """`scheme://authority`, as spelled in the path; empty for a path on disk."""
    found = _STORE.match(path)
    return found[0] if found else ""


def file_path(url: str) -> str | None:
    """The plain path of a `file:` URL, with a single slash before it; None for other text."""
    found = _FILE.match(url)
    return f"/{decode_uri(url[found.end() :])}" if found else None


def decode_uri(uri: str) -> str:
    """Decode percent sequences, unless they are not UTF-8."""
    try:
        return unquote_to_bytes(uri).decode()
    except UnicodeError:
        return uri


@dataclass(frozen=True, slots=True)
class Location:
    """A directory in a bucket, or in a container of an account; without segments, the whole bucket.

    Spellings of one directory are equal. Segments are not percent-decoded. `str` is the spelling that storage opens.
    """

    cloud: Cloud
    bucket: str
    segments: tuple[str, ...]
    account: str = ""
    """Azure only; empty if the location does not name it."""
    domain: str = ""
    """Azure only: the host name after the account."""

    @property
    def prefix(self) -> str:
        """The common prefix of the names of its objects."""
        return "".join(f"{segment}/" for segment in self.segments)

    def is_within(self, other: Location) -> bool:
        return replace(self, segments=self.segments[: len(other.segments)]) == other

    def __str__(self) -> str:
        scheme = next(name for name, cloud in _CLOUDS.items() if cloud is self.cloud)
        root = f"abfss://{self.bucket}@{self.account}.{self.domain}" if self.account else f"{scheme}://{self.bucket}"
        return "/".join((root, *self.segments))


def parse_location(url: str, account: str | None = None) -> Location:
    """`account` is the Azure account of URLs that do not name it (`az://container/path`).

    Raises `ValueError` with a message that continues "the location …".
    """
    cloud, root = cloud_of(url), store_root(url)
    if cloud is None:
        raise ValueError("has an unknown scheme: use s3, gs, abfss, az or file")
    path = url[len(root) + 1 :].rstrip("/")
    segments = tuple(path.split("/")) if path else ()
    authority = root.partition("://")[2]
    if not authority:
        raise ValueError(f"has no bucket or container: write it like {scheme_of(url)}://bucket/table")
    if cloud is not Cloud.AZURE:
        return Location(cloud, authority, segments)
    if named := _AZURE.fullmatch(authority):
        return Location(cloud, named[1], segments, named[2].lower(), f"dfs.{named[3] or 'core.windows.net'}".lower())
    if "@" in authority or (account is None and scheme_of(url) == "abfss"):
        raise ValueError("has no account: write it like abfss://container@account.dfs.core.windows.net/table")
    return Location(cloud, authority, segments, (account or "").lower(), "dfs.core.windows.net")
