"""A profile's credentials as the `Authorization` header."""

from __future__ import annotations

import base64
import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from lakeport.client.auth.oauth import fetch_token
from lakeport.client.http.pool import HttpPool
from lakeport.errors import AuthenticationError
from lakeport.freshness import Clock, Fresh, Renewed, renew_at
from lakeport.sharing.profile import Basic, BearerToken, OAuthClientCredentials, OAuthPrivateKeyJwt, Profile

_WARN_SECONDS = 7 * 24 * 3600


class Authorization(Protocol):
    """Thread-safe."""

    def header(self) -> str:
        """The header value. Raises `AuthenticationError` if there is none, and `UnavailableError`."""
        ...

    def renewed(self, refused: str) -> str | None:
        """A new value after the server rejected this one; None if there is no other."""
        ...


def authorization(profile: Profile, http: HttpPool, clock: Clock = time.time) -> Authorization:
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
            return _OAuth(credentials, http, clock, _token_of(credentials, clock))


def _warn_of_cleartext(profile: Profile) -> None:
    urls = [profile.endpoint, getattr(profile.credentials, "token_endpoint", profile.endpoint)]
    for url in dict.fromkeys(urls):
        host = urlsplit(url).hostname or ""
        if urlsplit(url).scheme == "http" and not _is_loopback(host):
            message = (
                f"the credentials for {host} are sent unencrypted, and others on the network can read them: ask the "
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
    clock: Clock

    def header(self) -> str:
        if self.profile.is_expired(int(self.clock() * 1000)):
            assert isinstance(self.profile.credentials, BearerToken)
            raise AuthenticationError(
                f"the token for {self.profile.endpoint} has expired ({self.profile.credentials.expiration_time}): "
                "ask the provider for a new profile",
                status=401,
                code="TOKEN_EXPIRED",
            )
        return self.value

    def renewed(self, refused: str) -> None:
        return None


@cache
def _token_of(credentials: OAuthClientCredentials | OAuthPrivateKeyJwt, clock: Clock) -> Renewed[str]:
    return Renewed(clock)


@dataclass(frozen=True, slots=True)
class _OAuth:
    """A token fetched on first use, and renewed before it expires."""

    credentials: OAuthClientCredentials | OAuthPrivateKeyJwt
    http: HttpPool
    clock: Clock
    token: Renewed[str]

    def header(self) -> str:
        return self.token.current(self._fetch)

    def renewed(self, refused: str) -> str:
        return self.token.instead_of(refused, self._fetch)

    def _fetch(self) -> Fresh[str]:
        asked = self.clock()
        token = fetch_token(self.credentials, self.http, asked)
        expires = None if token.seconds is None else asked + token.seconds
        return Fresh(f"Bearer {token.value}", renew_at(asked, expires, part=0.5))
