"""Authentication: the recipient behind a bearer token, the client's address, and how often either may ask."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from lakeport.server.catalog.index import Catalog, token_digest
from lakeport.server.catalog.model import Recipient
from lakeport.server.http.asgi import Scope, header, record_of
from lakeport.server.http.refusals import Refusal, too_many

_log = logging.getLogger(__name__)

_Address: TypeAlias = IPv4Address | IPv6Address
_Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]

_WITH_PORT = re.compile(r"([0-9.]+):[0-9]+|\[([^\]]+)\](?::[0-9]+)?")


class Doorkeeper:
    """Authenticates recipients."""

    def __init__(self, catalog: Callable[[], Catalog], limiter: RateLimiter, failed: FailedTokens) -> None:
        self._catalog, self._limiter, self._failed = catalog, limiter, failed

    def admit(self, scope: Scope) -> Recipient:
        """Raises `Refusal`: 401 without a valid token, 403 from an address that is not allowed, 429 above the rate
        limit or after too many bad tokens from the address. Bad and expired tokens get the same response."""
        record = record_of(scope)
        recipient = self._recipient(scope)
        record.recipient = recipient
        check_address(recipient, record.address)
        self._limiter.take(recipient.id)
        return recipient

    def _recipient(self, scope: Scope) -> Recipient:
        catalog, token = self._catalog(), bearer_token(scope)
        if catalog.anonymous is not None:
            return (catalog.authenticate(token, _now()) if token else None) or catalog.anonymous
        if token is None:
            raise _unauthenticated("the request has no bearer token: use the one in the profile file")
        address, digest = address_group(record_of(scope).address), token_digest(token)
        self._failed.check(address, digest)
        found = catalog.authenticate(token, _now())
        self._failed.note(address, digest, good=found is not None)
        if found is not None:
            return found
        owner = catalog.authenticate(token, 0)
        _log.info("rejected %s", f"an expired token of {owner.name}" if owner else "an unknown token")
        raise _unauthenticated(
            "the bearer token is invalid or has expired: ask the provider of the share for a new profile"
        )


class Proxies:
    """Reverse proxies whose forwarding headers are trusted."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted = tuple(trusted)

    def client_address(self, scope: Scope) -> str:
        """The peer, or the last forwarded address that is not a trusted proxy."""
        peer: str = scope["client"][0] if scope.get("client") else ""
        if not self.trust(peer):
            return peer
        # Some proxies append their own header after one that the client forged.
        forwarded = [str(value, "latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        for address in map(_without_port, reversed([part for part in ",".join(forwarded).split(",") if part.strip()])):
            if not self.trust(address):
                return address
        return peer

    def url(self, scope: Scope) -> str:
        """The scheme, host and port by which the client reached the server."""
        peer = scope["client"][0] if scope.get("client") else ""
        proto = host = None
        if self.trust(peer):
            # Of several proxies, the client knows the first.
            proto, host = (_first(header(scope, name)) for name in (b"x-forwarded-proto", b"x-forwarded-host"))
        return f"{proto or scope['scheme']}://{host or header(scope, b'host') or _own_host(scope)}"

    def trust(self, address: str) -> bool:
        """Whether the address is that of a trusted proxy."""
        return bool(self._trusted) and is_within(address, self._trusted)


def check_address(recipient: Recipient, address: str) -> None:
    """Raises `Refusal` (403) if the recipient is not allowed to connect from the address."""
    if recipient.ip_allow_list and not is_within(address, recipient.ip_allow_list):
        message = f"requests from the address {address} are not allowed: ask the provider of the share"
        raise Refusal(message, status=403, code="PERMISSION_DENIED")


def bearer_token(scope: Scope) -> str | None:
    """The token in the Authorization header, if any (RFC 6750)."""
    scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def is_within(address: str, networks: tuple[str, ...]) -> bool:
    """Whether the address is in one of the networks. False for anything that is not an address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    parsed = _unmapped(parsed)
    return any(parsed in network for network in _parsed(networks))


@lru_cache(4096)
def address_group(address: str) -> str:
    """The unit of per-address limits: an IPv4 address, or an IPv6 /64, because one client has all of it."""
    try:
        parsed = _unmapped(ip_address(address.partition("%")[0]))
    except ValueError:
        return address
    return str(parsed if isinstance(parsed, IPv4Address) else ip_network((parsed, 64), strict=False))


def _unmapped(address: _Address) -> _Address:
    """Unwrap ::ffff:a.b.c.d, as a dual-stack socket shows an IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


@lru_cache(1024)
def _parsed(networks: tuple[str, ...]) -> _Networks:
    return tuple(ip_network(network, strict=False) for network in networks)


def _without_port(forwarded: str) -> str:
    """An address from X-Forwarded-For, without the port that some proxies add, such as Azure's Application Gateway."""
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


@dataclass(slots=True)
class _Bucket:
    left: float
    filled: float


_MOST_REMEMBERED = 10_000


class RateLimiter:
    """A token bucket per client: so many calls a minute, with bursts of up to a minute's worth. 0 means no limit."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._now = per_minute, now
        self._buckets: dict[str, _Bucket] = {}

    def take(self, client: str) -> None:
        """Raises `Refusal` (429) with the seconds to wait."""
        if self._per_minute:
            self.check(client)
            self._buckets[client].left -= 1

    def check(self, client: str) -> None:
        """Raise as `take` would, without taking a token."""
        if not self._per_minute:
            return
        now, rate = self._now(), self._per_minute / 60
        bucket = self._buckets.pop(client, None) or _Bucket(self._per_minute, now)
        bucket.left = min(self._per_minute, bucket.left + (now - bucket.filled) * rate)
        bucket.filled = now
        self._buckets[client] = bucket
        if len(self._buckets) > _MOST_REMEMBERED:  # evict the least recently used
            del self._buckets[next(iter(self._buckets))]
        if bucket.left < 1:
            seconds = math.ceil((1 - bucket.left) / rate)
            raise too_many(f"too many requests: retry in {seconds} s", seconds)


class FailedTokens:
    """Refuses addresses that send too many bad tokens, except for tokens that have worked from there before: a client
    with an old profile must not lock out others behind the same address."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._failures = RateLimiter(per_minute, now)
        self._good: dict[tuple[str, str], None] = {}

    def check(self, address: str, digest: str) -> None:
        """Raises `Refusal` (429) if the token must not be checked."""
        if (address, digest) not in self._good:
            self._failures.check(address)

    def note(self, address: str, digest: str, *, good: bool) -> None:
        """Record the result of checking a token."""
        self._good.pop((address, digest), None)
        if not good:
            with suppress(Refusal):
                self._failures.take(address)
            return
        self._good[address, digest] = None
        if len(self._good) > _MOST_REMEMBERED:
            del self._good[next(iter(self._good))]
