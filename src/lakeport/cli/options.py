"""Options that commands share, and the frame that they describe."""

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
        help="A Delta table: a path, a URL like s3://…, or a shared table, PROFILE#share.schema.table.",
        show_default=False,
    ),
]
Where = Annotated[str | None, typer.Option(metavar="SQL", help="Only rows that match, such as `amount > 100`.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B.C", help="Only these columns, in this order; quote dots and commas with backticks."),
]
Version = Annotated[int | None, typer.Option(min=0, metavar="N", help="Use this version of the table.")]
Timestamp = Annotated[
    str | None, typer.Option(metavar="TIME", help="Use the table as of this time: ISO 8601, UTC unless it has a zone.")
]
Limit = Annotated[int | None, typer.Option(min=0, metavar="N", help="At most N rows.")]
Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A storage option, such as region=eu-west-1; may be repeated."),
]
Access = Annotated[
    Literal["url", "dir"] | None,
    typer.Option(
        help="Read a shared table by signed URLs or from its directory; by default, in the first mode that the "
        "provider offers."
    ),
]
Cache = Annotated[str | None, typer.Option(metavar="DIR", help="A directory that caches data files of shared tables.")]


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
    """Return the frame that the options describe, without opening the table yet."""
    frame = scan(target, access=access, cache=cache, storage_options=parse_options(option or []))
    if version is not None or timestamp is not None:
        frame = frame.at(version=version, timestamp=timestamp)
    return narrowed(frame, where, columns, limit)


def narrowed(rows: _Rows, where: str | None, columns: list[str] | None, limit: int | None) -> _Rows:
    """Apply the options that filter, select and limit."""
    if where is not None:
        rows = rows.where(where)
    if columns is not None:
        rows = rows.select(*parse_columns(columns))
    return rows if limit is None else rows.limit(limit)


def parse_columns(texts: list[str], option: str = "--columns") -> list[str]:
    """Split comma-separated lists of names; a comma between backticks is part of the name."""
    names = [name.strip() for text in texts for name in re.split(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", text)]
    if not all(names):
        raise ValueError(f"{option} takes names separated by commas, not {','.join(texts)!r}")
    return names


def parse_options(pairs: list[str], option: str = "--option") -> dict[str, str]:
    """Parse KEY=VALUE pairs into a dictionary."""
    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise ValueError(f"{option} takes KEY=VALUE, not {pair!r}")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
