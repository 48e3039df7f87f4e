"""Shared by the commands on a catalog of shares: opening its database, parsing names and times."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.cli.display import print_json_lines, print_table
from lakeport.errors import CatalogError, SharingError
from lakeport.sharing.timestamps import parse_timestamp

if TYPE_CHECKING:
    from lakeport.server.catalog.admin import ShareAdmin
    from lakeport.server.catalog.database import Database
    from lakeport.server.catalog.model import CatalogContent
    from lakeport.server.catalog.recipient_admin import RecipientAdmin

DEFAULT_CATALOG = "sqlite:///lakeport.db"
_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(\d{1,6})([mhdw])")

CatalogUrl = Annotated[
    str,
    typer.Option(
        "--catalog",
        metavar="URL",
        envvar="LAKEPORT_CATALOG",
        help="The catalog's database, such as sqlite:///path or postgresql://user@host/name.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Remove it together with its tables.")]
Rename = Annotated[str | None, typer.Option("--rename", metavar="NAME", help="The new name.")]


@contextmanager
def opened(url: str, *, create: bool = False) -> Iterator[Database]:
    """Open the database at a URL and close it after the block. A missing SQLite file is created only with `create`.

    Raises `CatalogError` if the catalog is a configuration file."""
    if url.lower().endswith((".yaml", ".yml")):
        raise CatalogError(f"the catalog in {url} is a file: edit it; a running server picks up the change")
    try:
        from lakeport.server.catalog.database import Database
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is not installed: pip install 'lakeport[server]'") from error
    database = Database(url, create=create)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def share_admin(url: str, *, create: bool = False) -> Iterator[ShareAdmin]:
    """Open the catalog to change what is shared."""
    with opened(url, create=create) as database:
        from lakeport.server.catalog.admin import ShareAdmin

        yield ShareAdmin(database)


@contextmanager
def recipient_admin(url: str, *, create: bool = False) -> Iterator[RecipientAdmin]:
    """Open the catalog to change who may read it."""
    with opened(url, create=create) as database:
        from lakeport.server.catalog.recipient_admin import RecipientAdmin

        yield RecipientAdmin(database)


def loaded(url: str) -> CatalogContent:
    """Return everything in the catalog."""
    with opened(url) as database, database.reading() as connection:
        from lakeport.server.catalog.sql_source import read_content

        return read_content(connection)


def print_listed(documents: Sequence[dict[str, Any]], columns: Sequence[str], json: bool) -> None:
    """Print one JSON object per line, or a table of some fields for people."""
    if json:
        print_json_lines(documents)
        return
    rows = [[_text(document[column]) for column in columns] for document in documents]
    print_table(columns, rows, [False] * len(columns))


def say(message: str) -> None:
    """Print a note to stderr."""
    print(f"lakeport: {message}", file=sys.stderr)


def parse_schema_name(text: str) -> tuple[str, str]:
    """Split `share.schema`; the share's name may contain periods. Raises `CatalogError`."""
    share, _, schema = text.rpartition(".")
    if not share or not schema:
        raise CatalogError(f"{text!r} is not a schema of a share: write it as share.schema")
    return share, schema


def parse_duration(text: str, option: str) -> int:
    """Convert `30m`, `24h`, `90d` or `2w` to milliseconds. Raises `ValueError` that names the option."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{option} takes a duration like 24h, 90d or 2w, not {text!r}")
    return int(match[1]) * _UNITS[match[2]]


def parse_expiry(text: str, now_ms: int) -> int:
    """Convert a duration or an ISO 8601 time to an expiry in milliseconds since the epoch.

    Raises `ValueError` for other text and for a time that is not in the future."""
    try:
        expires = parse_timestamp(text, "--expires")
    except SharingError:
        if not _DURATION.fullmatch(text.strip().lower()):
            raise ValueError(f"--expires takes a time like 90d or 2027-01-01T00:00:00Z, not {text!r}") from None
        expires = now_ms + parse_duration(text, "--expires")
    if expires <= now_ms:
        raise ValueError(f"--expires {text} is not in the future: pass a time like 90d")
    return expires


def now_ms() -> int:
    return int(time.time() * 1000)


def _text(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items())
    return "" if value is None else value
