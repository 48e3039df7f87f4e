"""Who asks: the recipient behind a bearer token, and the address that it asks from."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from lakeport.server.access.rates import FailedTokens, RateLimiter
from lakeport.server.catalog.index import Catalog, token_digest
from lakeport.server.catalog.model import Recipient
from lakeport.server.http.asgi import Scope, header
from lakeport.server.http.exchange import exchange_of
from lakeport.server.http.refusals import Refusal

_log = logging.getLogger(__name__)

_Address: TypeAlias = IPv4Address | IPv6Address
_Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]

_WITH_PORT = re.compile(r"([0-9.]+):[0-9]+|\[([^\]]+)\](?::[0-9]+)?")


class Doorkeeper:
    """Lets recipients in, and nobody else."""

    def __init__(self, catalog: Callable[[], Catalog], limiter: RateLimiter, failed: FailedTokens) -> None:
        self._catalog, self._limiter, self._failed = catalog, limiter, failed

    def admit(self, scope: Scope) -> Recipient:
        """Raises `Refusal`: 401 without a good token, 403 from a wrong address, 429 for asking too often, or from an
        address of many bad tokens. A bad token
        and an expired one get the same answer."""
        exchange = exchange_of(scope)
        recipient = self._recipient(scope)
        exchange.recipient = recipient
        check_address(recipient, exchange.address)
        self._limiter.take(recipient.id)
        return recipient

    def _recipient(self, scope: Scope) -> Recipient:
        catalog, token = self._catalog(), bearer_token(scope)
        if catalog.anonymous is not None:
            return (catalog.authenticate(token, _now()) if token else None) or catalog.anonymous
        if token is None:
            raise _unauthenticated("the request has no bearer token: use the profile file")
        address, digest = address_group(exchange_of(scope).address), token_digest(token)
        self._failed.check(address, digest)
        found = catalog.authenticate(token, _now())
        self._failed.note(address, digest, good=found is not None)
        if found is not None:
            return found
        owner = catalog.authenticate(token, 0)
        _log.info("refused a token %s", f"of {owner.name} that has expired" if owner else "that nobody has")
        raise _unauthenticated(
            "the bearer token is not valid (any more): ask the provider of the share for a new profile"
        )


class Proxies:
    """Reverse proxies whose word about the client counts."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted = tuple(trusted)

    def client_address(self, scope: Scope) -> str:
        """The peer, or the last address before the trusted proxies that it came through."""
        peer: str = scope["client"][0] if scope.get("client") else ""
        if not self.trust(peer):
            return peer
        # Some proxies put a header of their own behind the one that the client has made up.
        forwarded = [str(value, "latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        for address in map(_without_port, reversed([part for part in ",".join(forwarded).split(",") if part.strip()])):
            if not self.trust(address):
                return address
        return peer

    def url(self, scope: Scope) -> str:
        """Where the client reached the server: scheme, host and port."""
        peer = scope["client"][0] if scope.get("client") else ""
        proto = host = None
        if self.trust(peer):
            # Of several proxies, the first is the one that the client knows.
            proto, host = (_first(header(scope, name)) for name in (b"x-forwarded-proto", b"x-forwarded-host"))
        return f"{proto or scope['scheme']}://{host or header(scope, b'host') or _own_host(scope)}"

    def trust(self, address: str) -> bool:
        """Whether the address is that of a trusted proxy."""
        return bool(self._trusted) and is_within(address, self._trusted)


def check_address(recipient: Recipient, address: str) -> None:
    """Raises `Refusal` (403) if the recipient may not come from there."""
    if recipient.ip_allow_list and not is_within(address, recipient.ip_allow_list):
        message = f"requests from the address {address} are not allowed: ask the provider of the share"
        raise Refusal(message, status=403, code="PERMISSION_DENIED")


def bearer_token(scope: Scope) -> str | None:
    """The token of the Authorization header, if it has one (RFC 6750)."""
    scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def is_within(address: str, networks: tuple[str, ...]) -> bool:
    """Whether an address is, or lies in, one of those addresses and networks. What is no address is in none."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    parsed = _unmapped(parsed)
    return any(parsed in network for network in _parsed(networks))


@lru_cache(4096)
def address_group(address: str) -> str:
    """What limits by address count as one client: an IPv4 address, or the /64 network that an IPv6 client has whole."""
    try:
        parsed = _unmapped(ip_address(address.partition("%")[0]))
    except ValueError:
        return address
    return str(parsed if isinstance(parsed, IPv4Address) else ip_network((parsed, 64), strict=False))


def _unmapped(address: _Address) -> _Address:
    """The IPv4 address that a socket for both families shows as ::ffff:a.b.c.d."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


@lru_cache(1024)
def _parsed(networks: tuple[str, ...]) -> _Networks:
    return tuple(ip_network(network, strict=False) for network in networks)


def _without_port(forwarded: str) -> str:
    """An address of X-Forwarded-For; some proxies add the port, as Azure's Application Gateway does."""
    found = _WITH_PORT.fullmatch(forwarded.strip())
    return (found[1] or found[2]) if found else forwarded.strip()


def _now() -> int:
    return time.time_ns() // 1_000_000


def _first(values: str | None) -> str | None:
    return values and values.partition(",")[0].strip()


def _own_host(scope: Scope) -> str:
    host, port = scope.get("server") or ("localhost", None)
    return f"{host}:{port}" if port else str(host)


def _unauthenticated(message: str) -> Refusal:
    return Refusal(message, status=401, code="UNAUTHENTICATED", headers=((b"www-authenticate", b"Bearer"),))
