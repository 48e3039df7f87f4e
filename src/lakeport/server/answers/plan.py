"""The plan of an answer: its contents as values, before anything is signed or written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from lakeport.kernel.actions import Metadata, Protocol
from lakeport.server.answers.file_rows import FileRow
from lakeport.server.answers.formats import Needs
from lakeport.server.answers.opened_tables import Totals

FILE, ADD, REMOVE, CDC = "file", "add", "remove", "cdc"
"""The kinds of files: in the snapshot; or added, removed, or written as change data by a commit."""

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class State:
    """The protocol or the metadata of the table."""

    action: Protocol | Metadata
    version: int | None = None
    totals: Totals | None = None


@dataclass(frozen=True, slots=True)
class Files:
    """A batch of files of one kind and version."""

    kind: str
    rows: list[FileRow]
    version: int | None = None
    timestamp: int | None = None
    """Of the version, if the answer spans several or one was requested."""
    replaced: frozenset[str] = frozenset()
    """Paths that this commit removes and adds again. Each gets one URL: clients take two URLs for two files."""


class Page(msgspec.Struct, Generic[P], frozen=True, array_like=True):
    """A page of an answer, and the content of its token."""

    request: str
    """The fingerprint of the query."""
    first: int
    last: int
    """The range of versions; a snapshot has one."""
    start: P | None = None
    """None for the first page."""


Part: TypeAlias = State | Files | Page[Any]


@dataclass(frozen=True)
class Plan:
    """Parts in the order of the answer; the next page, if there is one, comes last. Iterating blocks and may raise."""

    version: int
    """For the `Delta-Table-Version` header."""
    needs: Needs
    parts: Iterator[Part]
    details: dict[str, Any]
    """Request parameters, for the audit log."""
