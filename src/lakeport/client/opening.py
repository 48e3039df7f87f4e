"""Open a shared table from user input."""

from __future__ import annotations

from lakeport.client.auth.profiles import GivenProfile, open_profile
from lakeport.client.http.pool import HttpPool
from lakeport.client.options import ClientOptions
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_directory import DirectoryTable
from lakeport.client.tables.by_urls import SharedTable
from lakeport.client.tables.offered import OfferedTable
from lakeport.sharing.names import TableName
from lakeport.source import TableSource


def open_server(profile: GivenProfile, options: ClientOptions) -> SharingServer:
    """A profile's server. Sends no request yet. Raises the errors of `open_profile`."""
    return SharingServer(open_profile(profile), HttpPool(options.http), formats=options.formats)


def open_table(server: SharingServer, name: TableName, options: ClientOptions) -> TableSource:
    """A table by the chosen access mode, or the one its provider offers. Sends no request yet."""
    by_urls = SharedTable(server, name, options.open_cache())
    by_directory = DirectoryTable(server, name, options.storage_options)
    ways: dict[str | None, list[TableSource]] = {"url": [by_urls], "dir": [by_directory], None: [by_urls, by_directory]}
    return OfferedTable(server, name, *ways[options.access])
