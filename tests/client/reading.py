"""A shared table as a frame, in the formats that a test wants, and rows that can be compared."""

from __future__ import annotations

from typing import Any

from lakeport.client.http.pool import HttpPool
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_urls import SharedTable
from lakeport.frame import Frame
from lakeport.sharing.names import parse_table_name
from lakeport.sharing.profile import BearerToken, Profile
from tests.server.running import TOKEN


def server_at(endpoint: str, http: HttpPool | None = None, **options: Any) -> SharingServer:
    return SharingServer(Profile(endpoint=endpoint, credentials=BearerToken(token=TOKEN)), http, **options)


def frame_of(server: SharingServer, name: str, **options: Any) -> Frame:
    return Frame.of(SharedTable(server, parse_table_name(name), **options))
