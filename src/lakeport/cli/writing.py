"""Shared by the commands that write: a progress bar, the result, and a report after an interrupt."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from lakeport.cli.display import print_json, print_text, printable
from lakeport.cli.options import parse_options
from lakeport.cli.progress import Bar, showing
from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.kernel.definition import parse_size
from lakeport.kernel.engine import Engine, OutputFile
from lakeport.tables import Result

_INTERRUPTED = 130
_COMMIT = re.compile(r"/_delta_log/(\d{20})\.json$")


@dataclass(frozen=True)
class Work:
    """The engine, progress bar and options of an operation on a table."""

    engine: Engine
    bar: Bar
    options: Mapping[str, str]


@contextmanager
def working(verb: str, target: str, option: list[str] | None, unit: str = "rows") -> Iterator[Work]:
    """Yield an engine whose progress is shown on a terminal. On an interrupt, print whether the table may have changed
    and exit with 130."""
    options = parse_options(option or [])
    storage = _WatchedStorage(options)
    try:
        with showing(verb, unit) as bar:
            storage.count = bar.count_file
            yield Work(engine_over(storage), bar, options)
    except KeyboardInterrupt:
        print(f"lakeport: {_left_behind(target, storage.commit)}", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None


def print_result(target: str, result: Result, sentence: str, json: bool, **more: Any) -> None:
    """Print one line for people, or one JSON object for machines."""
    if json:
        print_json({"table": target, "version": result.version, "metrics": result.metrics, **more})
    else:
        print_text(f"{sentence}; {printable(target)} is at version {result.version}")


def _left_behind(target: str, commit: int | None) -> str:
    if commit is None:
        return f"interrupted: {target} is unchanged"
    return f"interrupted while writing version {commit} of {target}: see lakeport history for whether it was committed"


class _WatchedStorage(Storage):
    """Remembers the last version it tried to write, and reports the size of each data file."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.commit: int | None = None
        self.count: Callable[[int], None] = lambda size: None

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        if match := _COMMIT.search(path):
            self.commit = int(match[1])
        super().write(path, data, overwrite=overwrite)

    def open_output(self, path: str) -> OutputFile:
        return _WatchedOutput(super().open_output(path), self.count)


@dataclass
class _WatchedOutput:
    output: OutputFile
    count: Callable[[int], None]
    size: int = 0

    def write(self, data: bytes | memoryview) -> int:
        written = self.output.write(data)
        self.size += written
        return written

    def close(self) -> None:
        self.output.close()
        self.count(self.size)

    def abort(self) -> None:
        self.output.abort()


def parse_size_of(text: str | None, option: str) -> int | None:
    """Parse the size that an option takes, if it is given."""
    try:
        return None if text is None else parse_size(text)
    except ValueError:
        raise ValueError(f"{option} takes a size such as 128mb, not {text!r}") from None
