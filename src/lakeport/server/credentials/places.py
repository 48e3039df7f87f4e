"""Table locations, parsed: the cloud, bucket and directory, however the location is spelled."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import unquote

from lakeport.errors import SharingError

_LOCATION = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_AZURE_AUTHORITY = re.compile(r"([^@]+)@([^.@]+)(?:\.([^@]+))?")
_DFS = re.compile(r"(^|\.)dfs(?=\.)")
_AZURE_DOMAIN = "blob.core.windows.net"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Cloud(Enum):
    """The value names the extra with its libraries, and the section of the configuration."""

    AWS = "aws"
    AZURE = "azure"
    GCS = "gcs"


_CLOUDS = {
    **dict.fromkeys(["s3", "s3a", "s3n"], Cloud.AWS),
    **dict.fromkeys(["abfs", "abfss", "wasb", "wasbs", "az", "azure", "adl"], Cloud.AZURE),
    "gs": Cloud.GCS,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A directory in a bucket, or in a container of an account; without segments, the whole bucket.

    Two spellings of one directory are equal places. Segments are not percent-encoded, and never empty, `.` or `..`.
    """

    cloud: Cloud
    bucket: str
    segments: tuple[str, ...]
    account: str = ""
    """Azure only; otherwise empty."""
    domain: str = ""
    """Azure only: the blob service's host name after the account."""

    @property
    def prefix(self) -> str:
        """The common prefix of the names of its objects."""
        return "".join(f"{segment}/" for segment in self.segments)

    def is_within(self, other: Place) -> bool:
        return replace(self, segments=self.segments[: len(other.segments)]) == other


def parse_place(location: str, account: str | None = None) -> Place:
    """`account` is the Azure account, for locations that do not name it (`az://container/path`).

    Raises `SharingError`: UNSUPPORTED_OPERATION for a local path or an unsupported scheme, INVALID_PARAMETER_VALUE for
    an invalid location.
    """
    match = _LOCATION.fullmatch(location)
    cloud = _CLOUDS.get(match[1].lower()) if match else None
    if match is None or cloud is None:
        raise SharingError(
            "there are temporary credentials only for tables on S3, Azure and GCS; read this one by signed URLs",
            status=400,
            code="UNSUPPORTED_OPERATION",
        )
    segments = _segments(match[3])
    if cloud is Cloud.AZURE:
        return _azure_place(match[2], segments, account)
    if not match[2]:
        raise _invalid("the location names no bucket")
    return Place(cloud, match[2], segments)


def _azure_place(authority: str, segments: tuple[str, ...], account: str | None) -> Place:
    if named := _AZURE_AUTHORITY.fullmatch(authority):
        domain = _DFS.sub(r"\1blob", (named[3] or _AZURE_DOMAIN).lower())
        return Place(Cloud.AZURE, named[1], segments, named[2].lower(), domain)
    if not authority or "@" in authority:
        raise _invalid("the location names no container: write abfss://container@account.dfs.core.windows.net/path")
    return Place(Cloud.AZURE, authority, segments, (account or "").lower(), _AZURE_DOMAIN)


def _segments(path: str) -> tuple[str, ...]:
    text = path.strip("/")
    segments = tuple(text.split("/")) if text else ()
    if _CONTROL.search(text) or any(unquote(segment) in {"", ".", ".."} for segment in segments):
        raise _invalid("the location has an empty segment, `.`, `..` or a control character")
    return segments


def _invalid(message: str) -> SharingError:
    return SharingError(message, status=400, code="INVALID_PARAMETER_VALUE")
