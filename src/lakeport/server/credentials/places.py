"""Where tables lie: the cloud, the bucket and the directory that a location names, however it is spelled."""

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
    """The value is the extra that has its libraries, and the section of the configuration."""

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
    """A directory in a bucket, or in a container of an account; without segments it is the whole bucket.

    Two spellings of one directory are equal places. Segments are plain text: none is empty, `.` or `..`.
    """

    cloud: Cloud
    bucket: str
    segments: tuple[str, ...]
    account: str = ""
    """Of Azure; empty for the others."""
    domain: str = ""
    """Of Azure: what follows the account in the name of its host, for the blob service."""

    @property
    def prefix(self) -> str:
        """What the names of all objects in it begin with."""
        return "".join(f"{segment}/" for segment in self.segments)

    def is_within(self, other: Place) -> bool:
        return replace(self, segments=self.segments[: len(other.segments)]) == other


def parse_place(location: str, account: str | None = None) -> Place:
    """`account` is Azure's, for locations that do not name it (`az://container/path`).

    Raises `SharingError`: UNSUPPORTED_OPERATION for a disk or a scheme for which there are no credentials,
    INVALID_PARAMETER_VALUE for a location that is none.
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
