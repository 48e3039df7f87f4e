"""Choose the access mode for copying a shared table."""

from __future__ import annotations

from lakeport.client.options import AccessMode, ClientOptions
from lakeport.client.rest.server import SharingServer
from lakeport.client.sync.by_directory import DirectorySource
from lakeport.client.sync.by_urls import UrlSource
from lakeport.client.sync.source import SyncSource
from lakeport.client.tables.offered import read_offered
from lakeport.errors import AuthenticationError, SharingError, UnavailableError
from lakeport.sharing.names import TableName


def open_source(server: SharingServer, name: TableName, client: ClientOptions, known: AccessMode) -> SyncSource:
    """The table by the chosen access mode, or by the one `known` from the last sync if still offered: another one names
    files differently, so all would be fetched again. Raises `SharingError`."""
    by_urls, by_directory = UrlSource(server, name), DirectorySource(server, name, client.storage_options)
    if client.access is not None:
        return by_directory if client.access == "dir" else by_urls
    if known == "dir" and _gives_credentials(by_directory):
        return by_directory
    ways: tuple[SyncSource, ...] = (by_urls, by_directory)
    return read_offered(ways, lambda way: way.check())[0]


def _gives_credentials(source: DirectorySource) -> bool:
    try:
        source.check()
    except (AuthenticationError, UnavailableError):
        raise
    except SharingError:
        return False
    return True
