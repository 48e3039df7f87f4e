"""`changes`: what the commits of a table inserted, updated and deleted."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeport.cli.options import Access, Cache, Columns, Json, ReadTarget, StorageOption, Where, narrowed, open_frame
from lakeport.cli.tables.rows import print_rows


def changes(
    target: ReadTarget,
    start_version: Annotated[int | None, typer.Option(min=0, metavar="N", help="The first version.")] = None,
    end_version: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The last version; else the latest.")
    ] = None,
    start_timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="The first version from this time on: ISO 8601, UTC if no zone.")
    ] = None,
    end_timestamp: Annotated[str | None, typer.Option(metavar="TIME", help="The last version up to this time.")] = None,
    where: Where = None,
    columns: Columns = None,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=0, metavar="N", help="At most so many.")] = None,
    json: Json = False,
    access: Access = None,
    cache: Cache = None,
    option: StorageOption = None,
) -> None:
    """Print what changed from one version to another, for a table with the change data feed on; as JSON, one object per
    line."""
    feed = open_frame(target, option, None, None, access=access, cache=cache).changes(
        start_version, end_version, start_timestamp=start_timestamp, end_timestamp=end_timestamp
    )
    print_rows(narrowed(feed, where, columns, limit), json)
