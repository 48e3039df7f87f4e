"""Progress bars on stderr, if it is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakeport.cli.display import counted
from lakeport.frame import Frame

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

Expected = Callable[[], int | None]
"""Returns the total, if known; called only if a bar is shown."""


class Bar:
    """A progress bar; does nothing if stderr is not a terminal."""

    def __init__(self, progress: Progress | None, verb: str) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task(verb, total=None, written="")
        self._files = self._bytes = 0

    def expect(self, total: Expected) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=total())

    def advance(self, done: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, done)

    def reach(self, done: int, total: int) -> None:
        """Set the progress; a callback for operations on tables."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def count_file(self, size: int) -> None:
        """Record that a file was written."""
        self._files, self._bytes = self._files + 1, self._bytes + size
        if self._progress is not None and self._task is not None:
            from rich.filesize import decimal as format_size

            written = f"{counted(self._files, 'file')}, {format_size(self._bytes)} written"
            self._progress.update(self._task, written=written)


@contextmanager
def showing(verb: str, unit: str = "rows") -> Iterator[Bar]:
    """Show a bar of rows, files or bytes on stderr, if it is a terminal; remove the bar at the end."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Bar(None, verb)
        return
    from rich.progress import Progress

    with Progress(*_layout(unit), console=console, transient=True) as progress:
        yield Bar(progress, verb)


def _layout(unit: str) -> list[ProgressColumn]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn

    done = DownloadColumn() if unit == "bytes" else TextColumn(f"{{task.completed:,}} {unit}")
    return [
        TextColumn("{task.description}"),
        BarColumn(),
        done,
        TextColumn("{task.fields[written]}"),
        TimeElapsedColumn(),
    ]


def expected_rows(frame: Frame, limit: int | None = None) -> int | None:
    """The number of rows to expect, if the statistics have it."""
    total = 0
    for file in frame.files():
        if file.num_records is None:
            return None
        total += file.num_records
    return total if limit is None else min(total, limit)
