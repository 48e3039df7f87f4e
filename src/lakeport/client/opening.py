"""From what a person writes to a shared table."""

from __future__ import annotations

from lakeport.client.auth.profiles import GivenProfile, open_profile
from lakeport.client.http.pool import HttpPool
from lakeport.client.options import ClientOptions
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_directory import DirectoryTable
from lakeport.client.tables.by_urls import SharedTable
from lakeport.client.tables.offered import OfferedTable
from lakeport.sharing.names import TableName, parse_table_url
from lakeport.source import TableSource


def open_shared(text: str, options: ClientOptions = ClientOptions()) -> TableSource:  # noqa: B008  # frozen
    """The table `profile#share.schema.table`. Nothing is asked of the server yet.

    Raises `ValueError` for a text, or a profile, that makes no sense, and `OSError` if the profile cannot be read."""
    url = parse_table_url(text)
    return open_table(open_server(url.profile, options), url.name, options)


def open_server(profile: GivenProfile, options: ClientOptions) -> SharingServer:
    """The server that a profile leads to. Nothing is asked of it yet. Raises as `open_profile` does."""
    return SharingServer(open_profile(profile), HttpPool(options.http), formats=options.formats)


def open_table(server: SharingServer, name: TableName, options: ClientOptions) -> TableSource:
    """A table, by the way that was chosen or that its provider offers. Nothing is asked of the server yet."""
    by_urls = SharedTable(server, name, options.open_cache())
    by_directory = DirectoryTable(server, name, options.storage_options)
    ways: dict[str | None, list[TableSource]] = {"url": [by_urls], "dir": [by_directory], None: [by_urls, by_directory]}
    return OfferedTable(server, name, *ways[options.access])
