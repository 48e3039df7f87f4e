"""From a target to a table, and to a frame."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from lakeport.engine import default_engine
from lakeport.frame.frame import Frame
from lakeport.frame.remembered import remembered
from lakeport.kernel.engine import Engine
from lakeport.kernel.paths import parse_target
from lakeport.locations import file_path, is_url
from lakeport.sharing.names import is_table_url, parse_table_name, parse_table_url
from lakeport.source import PathTable, TableSource

if TYPE_CHECKING:
    from lakeport.client import AccessMode, ClientChoices, GivenProfile


def scan(
    target: str,
    *,
    access: AccessMode | None = None,
    cache: str | PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
) -> Frame:
    """The Delta table at a path or URL (`s3://`, `gs://`, `az://`, `abfss://`, local), or the shared table
    `profile#share.schema.table`. Lazy: first use opens the latest version, and the frame and everything derived from it
    stay at that version. Call `scan` again to see newer ones.

    `access` selects how a shared table's files are read: through signed URLs (`url`) or in the table's own directory
    (`dir`); the default is what the provider offers. `cache` is a directory for data read through signed URLs.
    `storage_options` are obstore's; missing ones come from the environment, or from the server for a shared table read
    in its directory. `engine` is for tables at a path. Raises `ValueError` for options that do not fit together."""
    options = storage_options or {}
    return Frame.of(open_source(target, engine=engine, access=access, cache=cache, storage_options=options))


def open_source(
    target: str, *, profile: GivenProfile = None, engine: Engine | None = None, **options: Unpack[ClientChoices]
) -> TableSource:
    """The table that `scan` takes; given a profile, the shared table `share.schema.table`. Sends no request yet.

    Raises the errors of `scan`, and `OSError` if the profile cannot be read."""
    text = parse_target(target)
    if profile is None and not is_table_url(text):
        if options.get("access") is not None or options.get("cache") is not None:
            raise ValueError(f"access and cache apply only to shared tables, PROFILE#share.schema.table, not to {text}")
        storage_options = options.get("storage_options")
        if engine is None and is_url(text) and file_path(text) is None:
            return remembered(text, storage_options or {})
        return PathTable(engine or default_engine(storage_options), text)
    if engine is not None:
        raise ValueError("engine applies only to tables at a path: shared tables are read with the client's own")
    from lakeport.client import ClientOptions, open_server, open_table  # lazy: local tables do not need the client

    client = ClientOptions(**options)
    if profile is not None:
        return open_table(open_server(profile, client), parse_table_name(text), client)
    url = parse_table_url(text)
    return open_table(open_server(url.profile, client), url.name, client)
