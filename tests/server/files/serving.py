"""A directory that is served by `FilesApp` on a real server, for the length of a ``with`` block."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from lakeport.server.catalog.index import Catalog
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient, Share, Table
from lakeport.server.files import FilesApp
from lakeport.server.http.asgi import Receive, Scope, Send
from lakeport.server.signing.signers import Signers

KEY = b"a key for tests, as long as any"
ENDPOINT = "/delta-sharing"
ANN = Recipient(id="id of ann", name="ann", tokens=(BearerToken(digest="of a token"),), grants=("sales",))


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class ServedTable:
    """A table whose files are at `root`; `table`, `now` and `recipient` may be replaced while the server runs."""

    root: Path
    url: str
    table: Table | None
    now: float = field(default_factory=time.time)
    recipient: Recipient | None = ANN

    def catalog(self) -> Catalog:
        tables = (self.table,) if self.table else ()
        recipients = (self.recipient,) if self.recipient else ()
        return Catalog(CatalogContent(shares=(Share(id="1", name="sales"),), tables=tables, recipients=recipients))

    def write(self, name: str, data: bytes) -> str:
        """The signed URL of a new file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return self.sign(name)

    def sign(self, name: str) -> str:
        assert self.table is not None
        signers = Signers(KEY, endpoint=ENDPOINT, seconds=3600, now=lambda: self.now)
        return signers.for_table(self.table, self.url, ANN.id).sign([f"{self.root}/{name}"])[0]

    def open_files(self) -> list[str]:
        """Files of the table that this process has open."""
        found = []
        for number in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # closed since it was listed
                found.append(os.readlink(f"/proc/self/fd/{number}"))
        return [path for path in found if path.startswith(f"{os.path.realpath(self.root)}/")]


def request(url: str, method: str = "GET", **headers: str) -> Reply:
    """Sends exactly this URL. Names of headers are written with underscores."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    try:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, headers=fields)
        answer = connection.getresponse()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


@contextmanager
def serving_files(root: Path, *, stall_seconds: float = 60) -> Iterator[ServedTable]:
    """The table `4b1c` at `root`."""
    table = Table(id="4b1c", share="sales", schema="eu", name="orders", location=str(root))
    served = ServedTable(root, "", table)
    files = FilesApp(served.catalog, KEY, endpoint=ENDPOINT, stall_seconds=stall_seconds, now=lambda: served.now)
    try:
        with running(_with_abort(files)) as served.url:
            yield served
    finally:
        files.close()


def _with_abort(files: FilesApp) -> Any:
    """What the whole server does for its applications: they may cut a connection off."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["abort"] = send.__self__.transport.abort  # type: ignore[attr-defined]
        await files(scope, receive, send)

    return app


@contextmanager
def running(app: Any) -> Iterator[str]:
    """The URL of an ASGI application on uvicorn, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), name="uvicorn")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()
