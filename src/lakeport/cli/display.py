"""Printing: JSON for machines, tables for people. Only the latter imports rich."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lakeport.cli.rendering import ENCODER

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_UNBOUNDED = 1_000_000
"""The page width for pipes and files, so that nothing is cut off."""

_WIDEST = 60
"""The most width that is reserved for a column when choosing how many fit on a terminal."""


def print_json(value: Any) -> None:
    """Print one document on one line."""
    print_json_lines([value])


def print_json_lines(values: Iterable[Any]) -> None:
    for value in values:
        sys.stdout.buffer.write(ENCODER.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def print_text(text: str) -> None:
    from rich.text import Text

    console().print(Text(text))


def print_table(names: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[bool]) -> None:
    """Print as many columns as fit on the terminal, and the names of those left out.

    `numbers` marks the columns to right-align."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    page = console()
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(len(name), *(c.cell_len for c in column))
        for name, column in zip(names, _columns(cells, names), strict=True)
    ]
    shown = _that_fit([min(width, _WIDEST) for width in widths], page.width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, is_number in zip(names[:shown], numbers[:shown], strict=True):
        table.add_column(Text(printable(name)), justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*row[:shown])
    page.print(table)
    if shown < len(names):
        page.print(
            Text(f"and {len(names) - shown} more columns: {', '.join(map(printable, names[shown:]))}", style="dim")
        )


def console() -> Console:
    from rich.console import Console

    page = Console(highlight=False, markup=False)
    return page if page.is_terminal else Console(highlight=False, markup=False, width=_UNBOUNDED)


def printable(text: str) -> str:
    """Escape characters that would move the cursor or break the line."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def counted(number: int, noun: str) -> str:
    """`1 row`, `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cell(value: Any) -> Text:
    from rich.text import Text

    if value is None:
        return Text("null", style="dim")
    if isinstance(value, str | float):  # JSON would turn NaN into null
        return Text(printable(str(value)))
    return Text(ENCODER.encode(value).decode())


def _columns(cells: list[list[Text]], names: Sequence[str]) -> Iterable[Sequence[Text]]:
    from rich.text import Text

    return zip(*cells, strict=True) if cells else ([Text()] for _ in names)


def _that_fit(widths: list[int], room: int) -> int:
    """The number of columns of these widths that fit; at least one."""
    used = 0
    for index, width in enumerate(widths):
        used += width + 2
        if used > room + 2:
            return max(index, 1)
    return len(widths)
