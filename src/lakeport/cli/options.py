"""What the commands have in common: their options, and the frame that these describe."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from lakeport.frame import Frame, scan

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A Delta table: a path, or a URL like s3://…", show_default=False)
]
Where = Annotated[str | None, typer.Option(metavar="SQL", help="Only rows for which this holds, as `amount > 100`.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B.C", help="Only these columns, in this order; backticks keep a dot or a comma."),
]
Version = Annotated[int | None, typer.Option(min=0, metavar="N", help="The table at this version.")]
Timestamp = Annotated[
    str | None, typer.Option(metavar="TIME", help="The table as of a time: ISO 8601, UTC if it has no zone.")
]
Limit = Annotated[int | None, typer.Option(min=0, metavar="N", help="At most so many.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="An option of the storage, as region=eu-west-1; may be repeated."),
]


def open_frame(
    target: str,
    option: list[str] | None,
    version: int | None,
    timestamp: str | None,
    *,
    where: str | None = None,
    columns: list[str] | None = None,
    limit: int | None = None,
) -> Frame:
    """The frame that the options describe; the table is not opened yet."""
    frame = scan(target, storage_options=parse_options(option or []))
    if version is not None or timestamp is not None:
        frame = frame.at(version=version, timestamp=timestamp)
    if where is not None:
        frame = frame.where(where)
    if columns is not None:
        frame = frame.select(*parse_columns(columns))
    return frame if limit is None else frame.limit(limit)


def parse_columns(texts: list[str]) -> list[str]:
    """The names in comma-separated lists; a comma between backticks belongs to the name."""
    names = [name.strip() for text in texts for name in re.split(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", text)]
    if not all(names):
        raise ValueError(f"--columns takes names with commas between them, not {','.join(texts)!r}")
    return names


def parse_options(pairs: list[str]) -> dict[str, str]:
    """Storage options from KEY=VALUE."""
    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise ValueError(f"--option takes KEY=VALUE, not {pair!r}")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
