"""The messages between this process and Spark's JVM about a scan.

The JVM gets a scan's address, id and secret, and asks for the rest: `GET {address}/{id}?ask=…`, with the secret as the
bearer token. See `Driver.java` and `ScanDocument.java` in `jvm/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class FileEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A data file, whose number is its place in the list."""

    directory: str
    """Its partition values as Spark parses them from paths: `day=2026-01-31/country=NL`, or empty."""
    size: int
    has_deleted: bool


class ScanDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The description of a scan. Schemas are in Spark's JSON."""

    files: list[FileEntry]
    table: msgspec.Raw
    """All columns, void ones included."""
    stored: msgspec.Raw
    """The same with the names or ids they have in files, without void ones."""
    selected: msgspec.Raw
    """The columns to return."""
    checked: msgspec.Raw
    """The columns whose types in some files are checked."""
    settings: Mapping[str, str]
    """The values that the session's settings must have when the scan runs."""


class Question(msgspec.Struct, frozen=True):
    """The parameters of a request by a task or by Spark's driver."""

    ask: Literal["document", "url", "vector", "end"]
    """Answered with a `ScanDocument`; a `UrlAnswer`; the positions of deleted rows, in the portable format; nothing,
    because no plan refers to the scan any more."""
    file: int = 0
    """The number of the file whose URL or vector is wanted."""
    refused: str | None = None
    """The SHA-256 digest of a URL that the storage has rejected."""


class UrlAnswer(msgspec.Struct, frozen=True, rename="camel"):
    url: str
    life_ms: int
    """The remaining lifetime, which is immune to clock differences; 0 if unknown."""
