"""How much of what there is to read goes into one batch of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeport.kernel.changes import ChangeFile
from lakeport.kernel.scan import ScanFile

_DEFAULT_FILES = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch may have at most. A batch has one file at least; bytes are counted before a file is taken, so that
    the last one may go beyond them."""

    files: int | None
    bytes: int | None

    @classmethod
    def of(cls, files: int | None, size: int | None) -> Limits:
        """As options say; with none of them, some files."""
        return cls(_DEFAULT_FILES if files is None and size is None else files, size)


class Admission:
    """Counts what a batch takes, under limits, or without."""

    def __init__(self, limits: Limits | None) -> None:
        self.is_limited = limits is not None
        self._files = limits.files if limits else None
        self._bytes = limits.bytes if limits else None

    def take(self, files: Sequence[ScanFile | ChangeFile], first: int = 0, *, whole: bool) -> int:
        """How many of the files come into the batch, from one of them on; all or none if they belong together."""
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
