"""What the commands have in common: their options, and the frame that these describe."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar

import typer

from lakeport.frame import Changes, Frame, scan

_Rows = TypeVar("_Rows", Frame, Changes)

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A Delta table: a path, or a URL like s3://…", show_default=False)
]
ReadTarget = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A Delta table: a path, a URL like s3://…, or a shared one, PROFILE#share.schema.table.",
        show_default=False,
    ),
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
Access = Annotated[
    Literal["url", "dir"] | None,
    typer.Option(help="How a shared table is read: by signed URLs, or in its directory; else as it is offered."),
]
Cache = Annotated[
    str | None, typer.Option(metavar="DIR", help="Keep here what is read of a shared table, for the next time.")
]


def open_frame(
    target: str,
    option: list[str] | None,
    version: int | None,
    timestamp: str | None,
    *,
    access: Literal["url", "dir"] | None = None,
    cache: str | None = None,
    where: str | None = None,
    columns: list[str] | None = None,
    limit: int | None = None,
) -> Frame:
    """The frame that the options describe; the table is not opened yet."""
    frame = scan(target, access=access, cache=cache, storage_options=parse_options(option or []))
    if version is not None or timestamp is not None:
        frame = frame.at(version=version, timestamp=timestamp)
    return narrowed(frame, where, columns, limit)


def narrowed(rows: _Rows, where: str | None, columns: list[str] | None, limit: int | None) -> _Rows:
    """The rows that the options leave."""
    if where is not None:
        rows = rows.where(where)
    if columns is not None:
        rows = rows.select(*parse_columns(columns))
    return rows if limit is None else rows.limit(limit)


def parse_columns(texts: list[str], option: str = "--columns") -> list[str]:
    """The names in comma-separated lists; a comma between backticks belongs to the name."""
    names = [name.strip() for text in texts for name in re.split(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", text)]
    if not all(names):
        raise ValueError(f"{option} takes names with commas between them, not {','.join(texts)!r}")
    return names


def parse_options(pairs: list[str], option: str = "--option") -> dict[str, str]:
    """The values by their keys from KEY=VALUE."""
    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise ValueError(f"{option} takes KEY=VALUE, not {pair!r}")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
