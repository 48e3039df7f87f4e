"""Runs a server: listens, answers, and ends without breaking answers off."""

from __future__ import annotations

import errno
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from lakeport.errors import CatalogError
from lakeport.server.app import create_app
from lakeport.server.catalog.index import Catalog
from lakeport.server.config import ServerConfig
from lakeport.server.connections import LimitedProtocol
from lakeport.server.logs import set_up_logging
from lakeport.server.observing import Observed
from lakeport.server.services import Limits

_BACKLOG = 1024
_KEEP_ALIVE_SECONDS = 75
"""Longer than what proxies keep connections open for: else they would send requests into closed ones."""


_HOW_TO_SHARE = "add tables and who may read them: `lakeport share add`, `table add`, `recipient add`, `grant add`"


def serve(
    config: ServerConfig,
    *,
    announce: Callable[[str], None],
    drain_seconds: float = 0,
    grace_seconds: int = 30,
    limits: Limits = Limits(),  # noqa: B008  # frozen
) -> None:
    """Serves until the process is told to end by SIGINT or SIGTERM.

    Then `/ready` says no for `drain_seconds`, while all is answered; after that no connection is taken any more, and
    answers that have begun get `grace_seconds` to finish. Raises `CatalogError` for a configuration that makes no
    sense, `OSError` if the address cannot be listened on.
    """
    set_up_logging(config.log_format)
    _allow_many_connections()
    app = create_app(config, limits=limits)
    settings = server_settings(app, config, grace_seconds)
    sockets = listen(config.host, config.port, limits.stall_seconds)
    lines = list(_announcement(config, sockets, app.services.watcher.catalog))
    GracefulServer(settings, app, drain_seconds, lambda: announce("\n".join(lines))).run(sockets)


def _allow_many_connections() -> None:
    """Every connection takes a file descriptor: as many as the system gives without being asked for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def server_settings(app: Observed, config: ServerConfig, grace_seconds: int) -> uvicorn.Config:
    """Raises `CatalogError` for certificates that cannot be used."""
    limits = app.services.limits
    settings = uvicorn.Config(
        app,
        loop="uvloop",
        # Who reads a body gives up before the connection does, and says so.
        http=partial(LimitedProtocol, limits.head_bytes, limits.head_seconds, 2 * limits.body_seconds),  # type: ignore[arg-type]  # called only
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=grace_seconds,
        **_tls(config),
    )
    try:
        settings.load()
    except (OSError, ssl.SSLError) as error:
        files = f"{settings.ssl_certfile} and its key {settings.ssl_keyfile}"
        raise CatalogError(f"ssl: the certificate {files} cannot be used: {error}") from error
    return settings


class GracefulServer(uvicorn.Server):
    """Uvicorn that says first that it is about to end, and ends with success when it was told to."""

    def __init__(
        self, settings: uvicorn.Config, app: Observed, drain_seconds: float, on_start: Callable[[], None]
    ) -> None:
        super().__init__(settings)
        self._services, self._drain, self._on_start = app.services, drain_seconds, on_start
        self._ends = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Twice means at once. The signal is not raised again at the end: it was obeyed."""
        if self._services.draining:
            self.should_exit = self.force_exit = True
        self._services.draining = True
        self._ends = time.monotonic() + self._drain

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or time.monotonic() >= self._ends


def listen(host: str, port: int, stall_seconds: float) -> list[socket.socket]:
    """Sockets on all addresses of the host. A peer that takes nothing for so long is cut off by the system, which knows
    also of what has left the server's own buffers. Raises `OSError` that says what to do."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(error.errno, f"the host {host} cannot be listened on: {error.strerror}") from error
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    # A port that the system chooses would be another one for each address.
    sockets = [_listening(family, address) for family, address in addresses[: 1 if port == 0 else None]]
    for listening in sockets:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stall_seconds * 1000))
    return sockets


def _listening(family: int, address: Any) -> socket.socket:
    try:
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"port {address[1]} of {address[0]}"
        reasons = {
            errno.EADDRINUSE: f"{where} is in use by another program; choose another one with --port",
            errno.EACCES: f"{where} may not be used by this user; choose one above 1023 with --port",
            errno.EADDRNOTAVAIL: f"{where}: this machine does not have the address; choose another with --host",
        }
        raise OSError(error.errno, reasons.get(error.errno or 0, f"{where}: {error.strerror}")) from error


def _announcement(config: ServerConfig, sockets: list[socket.socket], catalog: Catalog) -> Iterator[str]:
    """Where the server listens, and what it shares."""
    scheme = "https" if config.ssl else "http"
    for listening in sockets:
        host, port = listening.getsockname()[:2]
        yield f"listening on {scheme}://{f'[{host}]' if ':' in host else host}:{port}{config.endpoint}"
    content = catalog.content
    if content.anonymous:
        yield "no token is asked for: everyone who reaches the server may read everything"
    tables = f"{len(content.tables):,} table{'s' * (len(content.tables) != 1)}"
    shares = f"{len(content.shares):,} share{'s' * (len(content.shares) != 1)}"
    recipients = f"{len(content.recipients):,} recipient{'s' * (len(content.recipients) != 1)}"
    yield f"sharing {tables} in {shares} with {'everyone' if content.anonymous else recipients}"
    if not content.tables:
        yield f"add tables to the shares in {config.path}" if config.catalog is None else _HOW_TO_SHARE


def _tls(config: ServerConfig) -> dict[str, Any]:
    if config.ssl is None:
        return {}
    password = config.ssl.certificate_password_file
    try:
        return {
            "ssl_certfile": config.ssl.certificate_file,
            "ssl_keyfile": config.ssl.certificate_key_file,
            "ssl_keyfile_password": Path(password).read_text(encoding="utf-8").strip() if password else None,
        }
    except OSError as error:
        raise CatalogError(f"ssl.certificatePasswordFile cannot be read: {error}") from error
