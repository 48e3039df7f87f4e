"""`head`, `count` and `changes`: the rows of a table, and how its commits changed them."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from lakeport.cli.display import print_json, print_json_lines, print_table, print_text
from lakeport.cli.options import (
    Access,
    Cache,
    Columns,
    Json,
    Limit,
    ReadTarget,
    StorageOption,
    Timestamp,
    Version,
    Where,
    narrowed,
    open_frame,
)
from lakeport.cli.rendering import json_rows
from lakeport.frame import Changes, Frame
from lakeport.kernel.schema import is_variant_field


def head(
    target: ReadTarget,
    limit: Annotated[int, typer.Option("-n", "--limit", min=0, metavar="N", help="The number of rows.")] = 10,
    where: Where = None,
    columns: Columns = None,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    access: Access = None,
    cache: Cache = None,
    option: StorageOption = None,
) -> None:
    """Print some rows. With --json, print one object per line."""
    frame = open_frame(
        target, option, version, timestamp, access=access, cache=cache, where=where, columns=columns, limit=limit
    )
    print_rows(frame, json)


def count(
    target: ReadTarget,
    where: Where = None,
    limit: Limit = None,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    access: Access = None,
    cache: Cache = None,
    option: StorageOption = None,
) -> None:
    """Count the rows, from the log alone if its statistics suffice."""
    frame = open_frame(target, option, version, timestamp, access=access, cache=cache, where=where, limit=limit)
    rows = frame.count()
    if json:
        print_json({"count": rows})
    else:
        print_text(str(rows))


def print_rows(view: Frame | Changes, json: bool) -> None:
    """Print the rows as a table, or as JSON, one object per line."""
    rows = (row for batch in view.to_batches() for row in json_rows(batch))
    if json:
        print_json_lines(rows)
        return
    schema = view.schema
    print_table(schema.names, [list(row.values()) for row in rows], [is_number(field) for field in schema])


def is_number(field: pa.Field) -> bool:
    """Whether to right-align a column."""
    types, data_type = pa.types, field.type
    is_numeric = types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type)
    return bool(is_numeric) and not is_variant_field(field)


def changes(
    target: ReadTarget,
    start_version: Annotated[int | None, typer.Option(min=0, metavar="N", help="The first version.")] = None,
    end_version: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The last version; by default the latest.")
    ] = None,
    start_timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Start with the first version from this time on: ISO 8601, UTC unless it has a zone."
        ),
    ] = None,
    end_timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="End with the last version up to this time.")
    ] = None,
    where: Where = None,
    columns: Columns = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=0, metavar="N", help="Print at most N rows.")
    ] = None,
    json: Json = False,
    access: Access = None,
    cache: Cache = None,
    option: StorageOption = None,
) -> None:
    """Print the changes between versions of a table whose change data feed is on. With --json, print one object per
    line."""
    feed = open_frame(target, option, None, None, access=access, cache=cache).changes(
        start_version, end_version, start_timestamp=start_timestamp, end_timestamp=end_timestamp
    )
    print_rows(narrowed(feed, where, columns, limit), json)
