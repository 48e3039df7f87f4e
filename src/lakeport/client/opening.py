"""From what a person writes to a shared table."""

from __future__ import annotations

from lakeport.client.rest import SharingServer
from lakeport.client.source import SharedTable
from lakeport.sharing.names import parse_table_url
from lakeport.sharing.profile import read_profile


def open_shared(text: str) -> SharedTable:
    """The table `profile#share.schema.table`. Nothing is asked of the server yet.

    Raises `ValueError` for a text, or a profile, that makes no sense, and `OSError` if the profile cannot be read."""
    url = parse_table_url(text)
    return SharedTable(SharingServer(read_profile(url.profile)), url.name)
