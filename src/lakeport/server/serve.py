"""Runs a server, with graceful shutdown."""

from __future__ import annotations

import errno
import logging
import resource
import signal
import socket
import ssl
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from lakeport.errors import CatalogError
from lakeport.server.app import create_app
from lakeport.server.catalog.index import Catalog
from lakeport.server.config import ServerConfig
from lakeport.server.connections.accepting import Acceptor
from lakeport.server.connections.admission import Admission
from lakeport.server.connections.protocol import LimitedProtocol
from lakeport.server.middleware import Observed
from lakeport.server.records.logs import set_up_logging

_log = logging.getLogger(__name__)

_BACKLOG = 1024
_MOST_DESCRIPTORS = 10_240
"""If the system sets no limit: macOS allows no more."""
_KEEP_ALIVE_SECONDS = 75
"""Longer than proxies keep connections open; otherwise they would send requests into closed ones."""


_HOW_TO_SHARE = "add tables and recipients: `lakeport share add`, `table add`, `recipient add`, `grant add`"


def serve(
    config: ServerConfig,
    *,
    announce: Callable[[str], None],
    drain_seconds: float = 0,
    grace_seconds: int = 30,
) -> None:
    """Serve until SIGINT or SIGTERM. SIGHUP reloads the catalog.

    On shutdown, `/ready` fails for `drain_seconds` while requests are still answered; then no connection is accepted,
    and responses under way get `grace_seconds` to finish. Raises `CatalogError` for an invalid configuration, `OSError`
    if the address is not available.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    set_up_logging(config.log_format)
    allow_many_connections()
    app = create_app(config)
    settings = server_settings(app, config, grace_seconds)
    sockets = listen(config.host, config.port, config.limits.stall_seconds)
    addresses = [listening.getsockname()[0] for listening in sockets]
    for warning in exposures(config, addresses, app.services.watcher.catalog):
        _log.warning(warning)
    signal.signal(signal.SIGHUP, lambda number, frame: app.services.watcher.reload())
    lines = list(_announcement(config, sockets, app.services.watcher.catalog))
    GracefulServer(settings, app, drain_seconds, lambda: announce("\n".join(lines))).run(sockets)


def allow_many_connections() -> None:
    """Every connection needs a file descriptor: raise the soft limit as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def server_settings(app: Observed, config: ServerConfig, grace_seconds: int) -> uvicorn.Config:
    """Raises `CatalogError` for unusable certificates."""
    # The application itself refuses smaller excesses, with a better response.
    body_bytes = 2 * config.max_request_bytes + config.limits.head_bytes
    settings = uvicorn.Config(
        app,
        loop="uvloop",
        http=partial(LimitedProtocol, config.limits, body_bytes),  # type: ignore[arg-type]  # called only
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
    """Uvicorn that reports not ready before it shuts down, and exits with success when told to stop."""

    def __init__(
        self, settings: uvicorn.Config, app: Observed, drain_seconds: float, on_start: Callable[[], None]
    ) -> None:
        super().__init__(settings)
        self._services, self._drain, self._on_start = app.services, drain_seconds, on_start
        self._ends = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        admission = Admission(self._services.config.limits, self._services.proxies)
        self._services.metrics.watch("connections_open", "Open client connections.", lambda: admission.open)
        serving = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        protocol = partial(self.config.http_protocol_class, **serving)
        for listening in sockets or ():
            self.servers.append(Acceptor(listening, admission, protocol, self.config.ssl))  # type: ignore[arg-type]  # all that is used
        self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second signal stops at once. Signals are not re-raised on exit: they were handled."""
        if self._services.draining:
            self.should_exit = self.force_exit = True
        self._services.draining = True
        self._ends = time.monotonic() + self._drain

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or time.monotonic() >= self._ends


def listen(host: str, port: int, stall_seconds: float) -> list[socket.socket]:
    """Listen on all addresses of the host. The system disconnects a peer that takes nothing for `stall_seconds`; it
    also sees data that has left the server's own buffers. Raises `OSError` that says what to do."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(error.errno, f"cannot listen on host {host}: {error.strerror}") from error
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    # A port chosen by the system would differ for each address.
    sockets = [_listening(family, address) for family, address in addresses[: 1 if port == 0 else None]]
    for listening in sockets if hasattr(socket, "TCP_USER_TIMEOUT") else ():  # macOS has its own timeout
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stall_seconds * 1000))
    return sockets


def _listening(family: int, address: Any) -> socket.socket:
    try:
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"port {address[1]} of {address[0]}"
        reasons = {
            errno.EADDRINUSE: f"{where} is in use by another program; choose another port with --port",
            errno.EACCES: f"{where} may not be used by this user; choose a port above 1023 with --port",
            errno.EADDRNOTAVAIL: f"{where}: this machine does not have this address; choose another with --host",
        }
        raise OSError(error.errno, reasons.get(error.errno or 0, f"{where}: {error.strerror}")) from error


def exposures(config: ServerConfig, addresses: Sequence[str], catalog: Catalog) -> Iterator[str]:
    """Warnings about secrets that others could read."""
    secrets = {"signingKeyFile": config.signing_key_file}
    if config.ssl is not None:
        secrets["ssl.certificateKeyFile"] = config.ssl.certificate_key_file
        secrets["ssl.certificatePasswordFile"] = config.ssl.certificate_password_file
    for key, path in secrets.items():
        if path is not None and Path(path).stat().st_mode & stat.S_IROTH:
            yield f"{key}: every user of this machine can read {path}; run chmod o-r on it"
    by_proxy = (config.public_url or "").startswith("https://")
    open_to_others = not all(ip_address(address.partition("%")[0]).is_loopback for address in addresses)
    if open_to_others and config.ssl is None and not by_proxy and not catalog.content.anonymous:
        yield (
            "tokens are sent over plain HTTP, where others can read them: set ssl, or publicUrl to the https URL"
            " of the proxy in front"
        )


def _announcement(config: ServerConfig, sockets: list[socket.socket], catalog: Catalog) -> Iterator[str]:
    """The addresses the server listens on, and what it shares."""
    scheme = "https" if config.ssl else "http"
    for listening in sockets:
        host, port = listening.getsockname()[:2]
        yield f"listening on {scheme}://{f'[{host}]' if ':' in host else host}:{port}{config.endpoint}"
    content = catalog.content
    if content.anonymous:
        yield "no token is required: everyone who can reach the server may read everything"
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
