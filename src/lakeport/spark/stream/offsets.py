"""A stream's progress in a table, as Spark stores it in a checkpoint: JSON in the JVM connector's format. And how much
data goes into one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeport.kernel.changes import ChangeFile
from lakeport.kernel.scan import ScanFile

SOURCE_VERSION = 1
"""The version of the format."""
BEFORE_ALL = -1
"""The index before the first file of a version."""

_KEYS = {"sourceVersion": int, "tableId": str, "tableVersion": int, "index": int, "isStartingVersion": bool}


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything up to and including the file `index` of `version` has been read.

    In the initial snapshot (`is_starting_version`), a version's files are all of its files, else those that its commit
    added. After the last file of a version, the offset is before the first file of the next one."""

    table_id: str
    version: int
    index: int = BEFORE_ALL
    is_starting_version: bool = False

    @property
    def position(self) -> tuple[int, int]:
        """Positions in a table increase as a stream advances."""
        return self.version, self.index

    def after(self, files: int) -> StreamOffset:
        """The offset this many files later in the same version."""
        return replace(self, index=self.index + files)

    def next_version(self) -> StreamOffset:
        return StreamOffset(self.table_id, self.version + 1)


def format_offset(offset: StreamOffset) -> dict[str, Any]:
    """The JSON for Spark; equal offsets give equal text, which Spark compares."""
    values = (SOURCE_VERSION, offset.table_id, offset.version, offset.index, offset.is_starting_version)
    return dict(zip(_KEYS, values, strict=True))


def parse_offset(given: Mapping[str, Any]) -> StreamOffset:
    """Raises `ValueError` if it is not an offset in this format."""
    for key, kind in _KEYS.items():
        if type(given.get(key)) is not kind:
            raise ValueError(
                f"an offset in the checkpoint has no valid {key!r}: it is from another source, or damaged; start the "
                "stream with a new checkpoint location"
            )
    if given["sourceVersion"] != SOURCE_VERSION:
        raise ValueError(
            f"an offset in the checkpoint has format {given['sourceVersion']}, but this version of Lakeport reads "
            f"{SOURCE_VERSION}: use the version that wrote it"
        )
    if given["tableVersion"] < 0 or given["index"] < BEFORE_ALL:
        raise ValueError(f"the checkpoint has an invalid offset: {dict(given)}")
    return StreamOffset(given["tableId"], given["tableVersion"], given["index"], given["isStartingVersion"])


_DEFAULT_FILES = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a batch. A batch has at least one file; bytes are counted before a file is taken, so the last one
    may exceed the limit."""

    files: int | None
    bytes: int | None

    @classmethod
    def of(cls, files: int | None, size: int | None) -> Limits:
        """Limits from options; the default is a number of files."""
        return cls(_DEFAULT_FILES if files is None and size is None else files, size)


class Admission:
    """Counts the files of a batch, with or without limits."""

    def __init__(self, limits: Limits | None) -> None:
        self.is_limited = limits is not None
        self._files = limits.files if limits else None
        self._bytes = limits.bytes if limits else None

    def take(self, files: Sequence[ScanFile | ChangeFile], first: int = 0, *, whole: bool) -> int:
        """How many files to take, starting at `first`; all or none if they belong together."""
        end = first
        while end < len(files) and ((whole and end > first) or self._has_room()):
            self._count(files[end])
            end += 1
        return end - first

    def _has_room(self) -> bool:
        return (self._files is None or self._files > 0) and (self._bytes is None or self._bytes > 0)

    def _count(self, file: ScanFile | ChangeFile) -> None:
        if self._files is not None:
            self._files -= 1
        if self._bytes is not None:
            self._bytes -= file.size
