"""How much data goes into one batch of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeport.kernel.changes import ChangeFile
from lakeport.kernel.scan import ScanFile

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
