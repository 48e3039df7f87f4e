"""Pooled connections: with proxies, verified certificates, redirects, whole response heads and discreet logs."""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock, local
from typing import Any, NamedTuple
from urllib.parse import urljoin
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from lakeport.client.http.answer import HttpAnswer
from lakeport.client.http.retrying import HTTP_ERRORS, connection_error
from lakeport.errors import SharingError

_LOGGERS = ("connection", "connectionpool", "poolmanager", "response", "util.retry")
"""The urllib3 modules that log; filters are not inherited."""


class _Thread(local):
    sends_for_us = False


_thread = _Thread()


@contextmanager
def private_logs() -> Iterator[None]:
    """Strip paths and queries from urllib3's log lines about requests of this thread while in the block: those of a
    signed URL are as good as a password. Lines about other requests are unchanged."""
    _thread.sends_for_us = True
    try:
        yield
    finally:
        _thread.sends_for_us = False


def _shorten(record: logging.LogRecord) -> bool:
    if _thread.sends_for_us and isinstance(record.args, tuple):
        record.args = tuple(map(_shortened, record.args))
        record.exc_info = None  # an error about a response's head quotes it, and it may redirect to a signed URL
    return True


def _shortened(argument: Any) -> Any:
    if isinstance(argument, Exception):
        return type(argument).__name__
    return "…" if isinstance(argument, str) and (argument.startswith("/") or "://" in argument) else argument


for _name in _LOGGERS:
    logging.getLogger(f"urllib3.{_name}").addFilter(_shorten)


class _WholeLines:
    """The connection, as `http.client` reads the head: by lines. A partial line raises `RemoteDisconnected`.

    `http.client` would end the head where the connection ends, even within a number: version 12 without its last digit
    would be version 1."""

    def __init__(self, incoming: Any) -> None:
        self._incoming = incoming

    def readline(self, limit: int = -1) -> bytes:
        line: bytes = self._incoming.readline(limit)
        if not line.endswith(b"\n") and len(line) != limit:
            raise http.client.RemoteDisconnected("the connection ended within the head of the answer")
        return line

    def close(self) -> None:
        self._incoming.close()


class _Response(http.client.HTTPResponse):
    def begin(self) -> None:
        incoming = self.fp
        self.fp = _WholeLines(incoming)  # type: ignore[assignment]  # all that is used of it
        try:
            super().begin()
        finally:
            if self.fp is not None:  # a response without a body closes it
                self.fp = incoming


class _HttpConnection(HTTPConnection):
    response_class = _Response


class _HttpsConnection(HTTPSConnection):
    response_class = _Response


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


def read_whole_heads(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Make the manager use these connections, and return it."""
    manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return manager


_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    proxy: str | None = None
    """The URL of a proxy for everything; None uses the environment (HTTPS_PROXY, NO_PROXY …)."""
    ca_file: str | None = None
    """A PEM file of certificates to trust in addition to the system's."""
    connect_seconds: float = 15.0
    read_seconds: float = 60.0
    """The longest time without a single byte."""
    connections_per_host: int = 32


class Origin(NamedTuple):
    """The server that may receive secrets meant for it."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """The host, with the port unless it is the default."""
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"


def origin_of(url: str) -> Origin:
    """The server that urllib3 connects to for a URL, parsed by urllib3 itself: other parsers, such as proxies, treat a
    backslash differently.

    Raises `SharingError`, without the URL, for non-HTTP URLs."""
    with suppress(urllib3.exceptions.LocationParseError):
        parts = urllib3.util.parse_url(url)
        if parts.scheme in _PORTS and parts.host and "\\" not in url:
            port = _PORTS[parts.scheme] if parts.port is None else parts.port
            return Origin(parts.scheme, parts.host.strip("[]"), port)
    raise SharingError("this is not an http or https URL", status=0, code="INVALID_URL")


class Connections:
    """A connection pool per proxy, and one without. Thread-safe."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._timeout = urllib3.Timeout(connect=options.connect_seconds, read=options.read_seconds)
        self._lock = Lock()
        self._managers: dict[tuple[str | None, bool], urllib3.PoolManager] = {}
        self._of_origins: dict[Origin, urllib3.PoolManager] = {}
        self._answered: set[Origin] = set()

    def close(self) -> None:
        for manager in list(self._managers.values()):
            manager.clear()

    def open(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        """The response, whatever its status, once its headers have arrived; follows redirects where that is safe.

        Raises `UnavailableError` for transient failures, `SharingError` otherwise."""
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self._send(method, url, headers, body)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            answer.close()
            method, headers = _redirected(method, url, urljoin(url, location), headers, answer)
            url = urljoin(url, location)
        raise _refused(answer, f"redirects more than {_MOST_REDIRECTS} times")

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        origin = origin_of(url)
        manager = self._manager(origin)
        try:
            with private_logs():
                response = manager.urlopen(
                    method,
                    url,
                    body=body,
                    headers=headers,
                    redirect=False,
                    retries=False,
                    preload_content=False,
                    decode_content=False,
                    timeout=self._timeout,
                )
        except HTTP_ERRORS as error:
            raise connection_error(error, str(origin), answered_before=origin in self._answered) from error
        self._answered.add(origin)
        return HttpAnswer(response, str(origin))

    def _manager(self, origin: Origin) -> urllib3.PoolManager:
        manager = self._of_origins.get(origin)
        if manager is None:
            with self._lock:
                manager = self._of_origins[origin] = self._shared_manager(origin)
        return manager

    def _shared_manager(self, origin: Origin) -> urllib3.PoolManager:
        """One manager for all origins behind the same proxy that need the same certificates."""
        proxy = self._options.proxy or _proxy_of_environment(origin)
        encrypted = origin.scheme == "https" or (proxy or "").startswith("https:")
        if (proxy, encrypted) not in self._managers:
            self._managers[proxy, encrypted] = read_whole_heads(self._new_manager(proxy, encrypted))
        return self._managers[proxy, encrypted]

    def _new_manager(self, proxy: str | None, encrypted: bool) -> urllib3.PoolManager:
        settings: dict[str, Any] = {
            "num_pools": 64,
            "maxsize": self._options.connections_per_host,
            "block": True,
            # Loading the system's certificates is slow.
            "ssl_context": _tls(self._options.ca_file) if encrypted else None,
        }
        return urllib3.PoolManager(**settings) if proxy is None else _proxy_manager(proxy, settings)


def _proxy_manager(proxy: str, settings: dict[str, Any]) -> urllib3.PoolManager:
    url = urllib3.util.parse_url(proxy)
    if url.scheme not in _PORTS:
        raise ValueError("the URL of a proxy must begin with http:// or https://")
    headers = urllib3.make_headers(proxy_basic_auth=url.auth) if url.auth else None
    plain = url._replace(auth=None).url
    return urllib3.ProxyManager(plain, proxy_headers=headers, proxy_ssl_context=settings["ssl_context"], **settings)


def _proxy_of_environment(origin: Origin) -> str | None:
    if proxy_bypass(f"{origin.host}:{origin.port}"):
        return None
    proxies = getproxies()
    proxy = proxies.get(origin.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _tls(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # TLS errors too
            raise ValueError(f"the certificates in {ca_file} cannot be used: {error.strerror or error}") from None
    return context


def _redirected(
    method: str, url: str, target: str, headers: Mapping[str, str], answer: HttpAnswer
) -> tuple[str, Mapping[str, str]]:
    """How to follow a redirect. Secrets stay with their server: another one gets neither `Authorization` nor a body.
    Raises `SharingError` for a redirect that is not followed."""
    before, after = origin_of(url), origin_of(target)
    if before.scheme == "https" and after.scheme == "http":
        raise _refused(answer, "redirects to an unencrypted connection")
    if method not in ("GET", "HEAD"):
        if answer.status not in (307, 308) or before != after:
            raise _refused(answer, f"redirects a {method} request elsewhere")
        return method, headers
    if before == after:
        return method, headers
    return method, {name: value for name, value in headers.items() if name.lower() != "authorization"}


def _refused(answer: HttpAnswer, what: str) -> SharingError:
    message = f"{answer.server} {what}; the redirect was not followed: ask the provider for the right endpoint"
    return SharingError(message, status=answer.status, code="REDIRECT")
