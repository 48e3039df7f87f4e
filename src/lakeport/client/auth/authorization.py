"""A profile's credentials as the `Authorization` header."""

from __future__ import annotations

import base64
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from lakeport.client.auth.oauth import AccessToken, fetch_token
from lakeport.client.http.pool import HttpPool
from lakeport.errors import AuthenticationError
from lakeport.sharing.profile import Basic, BearerToken, OAuthClientCredentials, OAuthPrivateKeyJwt, Profile

_WARN_SECONDS = 7 * 24 * 3600
_RENEW_SECONDS = 300.0

WallClock = Callable[[], float]
"""Seconds since the epoch."""


class Authorization(Protocol):
    """Thread-safe."""

    def header(self) -> str:
        """The header value. Raises `AuthenticationError` if there is none, and `UnavailableError`."""
        ...

    def renewed(self, refused: str) -> str | None:
        """A new value after the server rejected this one; None if there is no other."""
        ...


def authorization(profile: Profile, http: HttpPool, clock: WallClock = time.time) -> Authorization:
    """The authorization for a profile's requests. Users of the same OAuth credentials share the token.

    Warns if credentials are sent unencrypted to another machine."""
    _warn_of_cleartext(profile)
    match profile.credentials:
        case BearerToken(token=token):
            _warn_of_end(profile, clock())
            return _FixedToken(profile, f"Bearer {token}", clock)
        case Basic(username=username, password=password):
            packed = base64.b64encode(f"{username}:{password}".encode()).decode()
            return _FixedToken(profile, f"Basic {packed}", clock)
        case OAuthClientCredentials() | OAuthPrivateKeyJwt() as credentials:
            return _OAuth(credentials, http, clock, _tokens_of(credentials))


def _warn_of_cleartext(profile: Profile) -> None:
    urls = [profile.endpoint, getattr(profile.credentials, "token_endpoint", profile.endpoint)]
    for url in dict.fromkeys(urls):
        host = urlsplit(url).hostname or ""
        if urlsplit(url).scheme == "http" and not _is_loopback(host):
            message = (
                f"the credentials for {host} are sent unencrypted, and everyone on the way can read them: ask the "
                "provider for a profile with an https endpoint"
            )
            warnings.warn(message, UserWarning, stacklevel=3)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost" or host.lower().endswith(".localhost")


def _warn_of_end(profile: Profile, now: float) -> None:
    if profile.expires is not None and 0 < profile.expires / 1000 - now < _WARN_SECONDS:
        days = (profile.expires / 1000 - now) / (24 * 3600)
        message = f"the token for {profile.endpoint} expires in {days:.1f} days: ask the provider for a new profile"
        warnings.warn(message, UserWarning, stacklevel=2)


@dataclass(frozen=True, slots=True)
class _FixedToken:
    profile: Profile
    value: str = field(repr=False)
    clock: WallClock

    def header(self) -> str:
        if self.profile.is_expired(int(self.clock() * 1000)):
            assert isinstance(self.profile.credentials, BearerToken)
            raise AuthenticationError(
                f"the token for {self.profile.endpoint} has expired, at {self.profile.credentials.expiration_time}: "
                "ask the provider for a new profile",
                status=401,
                code="TOKEN_EXPIRED",
            )
        return self.value

    def renewed(self, refused: str) -> None:
        return None


@dataclass(slots=True)
class _Tokens:
    """The newest token, and when to renew it (seconds since the epoch). Hold the lock to change it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    value: str | None = None
    renew_at: float = 0.0


@cache
def _tokens_of(credentials: OAuthClientCredentials | OAuthPrivateKeyJwt) -> _Tokens:
    return _Tokens()


@dataclass(frozen=True, slots=True)
class _OAuth:
    """A token fetched on first use, and renewed before it expires."""

    credentials: OAuthClientCredentials | OAuthPrivateKeyJwt
    http: HttpPool
    clock: WallClock
    tokens: _Tokens

    def header(self) -> str:
        with self.tokens.lock:
            if self.tokens.value is None or self.clock() >= self.tokens.renew_at:
                return self._fetch()
            return self.tokens.value

    def renewed(self, refused: str) -> str:
        with self.tokens.lock:
            if self.tokens.value is not None and self.tokens.value != refused:
                return self.tokens.value  # another thread renewed it first
            return self._fetch()

    def _fetch(self) -> str:
        asked = self.clock()
        token = fetch_token(self.credentials, self.http, asked)
        self.tokens.value = f"Bearer {token.value}"
        self.tokens.renew_at = asked + _lifetime(token)
        return self.tokens.value


def _lifetime(token: AccessToken) -> float:
    """How long to use a token: it must still be valid on arrival."""
    if token.seconds is None:
        return float("inf")
    return token.seconds - min(_RENEW_SECONDS, token.seconds / 2)
