"""Open a profile in any form and make its `Authorization` header.

The token is in the profile, or is fetched from a token endpoint with a client secret or a private key.

See RFC 6749 (section 4.4), RFC 7523 (section 2.1), and the profile types in the protocol.
"""

from __future__ import annotations

import base64
import os
import secrets
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from lakeport.client.http.answer import HttpAnswer
from lakeport.client.http.error_responses import without_secrets
from lakeport.client.http.pool import HttpPool
from lakeport.errors import AuthenticationError
from lakeport.freshness import Clock, Fresh, Renewed, renew_at
from lakeport.kernel.paths import resolve_path
from lakeport.sharing.profile import (
    Basic,
    BearerToken,
    OAuthClientCredentials,
    OAuthPrivateKeyJwt,
    Profile,
    is_token,
    parse_profile,
    read_profile,
)

GivenProfile = str | os.PathLike[str] | IO[str] | IO[bytes] | Mapping[str, Any] | Profile | None
"""A file path, a `file:…` URL, JSON text, an open file, a dict, or a profile; None for the environment."""

PROFILE = "LAKEPORT_PROFILE"
"""The path of a profile, or its JSON text."""
ENDPOINT = "LAKEPORT_ENDPOINT"
TOKEN = "LAKEPORT_BEARER_TOKEN"


def open_profile(given: GivenProfile, environment: Mapping[str, str] = os.environ) -> Profile:
    """Raises `ValueError` for an invalid profile, and `OSError` if its file cannot be read."""
    match given:
        case Profile():
            return given
        case Mapping():
            return parse_profile(_encode(given))
        case None:
            return _from_environment(environment)
        case str() if not given.strip():
            raise ValueError("the profile is empty: pass the path of a file, or its text")
        case str() | os.PathLike():
            return _read(given)
        case _:
            return parse_profile(given.read())


def _read(place: str | os.PathLike[str]) -> Profile:
    is_url = isinstance(place, str) and place[:5].lower() == "file:"
    return read_profile(resolve_path("", str(place)) if is_url else place)


def _encode(content: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(dict(content))
    except (TypeError, ValueError, RecursionError):
        raise ValueError("the profile has a value that JSON cannot represent") from None


def _from_environment(environment: Mapping[str, str]) -> Profile:
    if given := environment.get(PROFILE):
        return _read(given)
    endpoint, token = environment.get(ENDPOINT), environment.get(TOKEN)
    if endpoint and token:
        return parse_profile(
            _encode({"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": token}),
            f"the profile in {ENDPOINT} and {TOKEN}",
        )
    raise ValueError(f"no profile found: pass one, or set {PROFILE}, or {ENDPOINT} and {TOKEN}")


_ALGORITHMS = tuple(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512))
_JWT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class AccessToken:
    value: str = field(repr=False)
    seconds: float | None
    """Its lifetime; None if the endpoint does not say."""


class _Answer(msgspec.Struct, frozen=True):
    access_token: str | None = None
    expires_in: float | None = None
    error: str | None = None
    error_description: str | None = None


def fetch_token(credentials: OAuthClientCredentials | OAuthPrivateKeyJwt, http: HttpPool, now: float) -> AccessToken:
    """Fetch a new token. `now` is in seconds since the epoch.

    Raises `AuthenticationError` if it is refused, and `UnavailableError` if the endpoint does not respond."""
    match credentials:
        case OAuthClientCredentials():
            headers, form = _for_secret(credentials)
        case OAuthPrivateKeyJwt():
            headers, form = _for_key(credentials, now)
    headers |= {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
    body = urlencode(form).encode()
    about = "a token"
    return http.receive("POST", credentials.token_endpoint, _read_token, headers=headers, body=body, about=about)


def _for_secret(credentials: OAuthClientCredentials) -> tuple[dict[str, str], dict[str, str]]:
    pair = f"{credentials.client_id}:{credentials.client_secret}".encode()
    form = {"grant_type": "client_credentials"} | ({"scope": credentials.scope} if credentials.scope else {})
    return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}, form


def _for_key(credentials: OAuthPrivateKeyJwt, now: float) -> tuple[dict[str, str], dict[str, str]]:
    """The signed assertion is for the issuer; the profile's audience is the resource that the token is for."""
    claims: dict[str, Any] = {
        "aud": credentials.issuer,
        "iss": credentials.client_id,
        "iat": int(now),
        "exp": int(now) + _JWT_SECONDS,
        "jti": secrets.token_hex(16),
        "resource": credentials.audience,
    }
    if credentials.scope:
        claims["scope"] = credentials.scope
    assertion = _sign(claims, _read_key(credentials), credentials.algorithm or "RS256", credentials.key_id)
    return {}, {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}


def _read_key(credentials: OAuthPrivateKeyJwt) -> bytes:
    try:
        return Path(credentials.private_key_file).read_bytes()
    except OSError as error:
        raise _unusable(
            f"the profile's private key cannot be read: {error.strerror} [{credentials.private_key_file}]"
        ) from None


def _sign(claims: dict[str, Any], pem: bytes, algorithm: str, key_id: str | None) -> str:
    """The claims as a signed token. Messages never contain the key."""
    try:
        import jwt
    except ImportError:
        raise _unusable("the profile has a private key: pip install 'lakeport[oauth]' to use it") from None
    if algorithm not in _ALGORITHMS:
        raise _unusable(
            f"the profile's algorithm {algorithm[:20]!r} is not supported; use one of {', '.join(_ALGORITHMS)}"
        )
    try:
        return jwt.encode(claims, pem, algorithm, headers={"kid": key_id} if key_id else None)
    except (jwt.InvalidKeyError, ValueError, TypeError):
        raise _unusable(
            f"the profile's private key must be PEM without a password, and fit the algorithm {algorithm}"
        ) from None


def _unusable(message: str) -> AuthenticationError:
    return AuthenticationError(message, status=0, code="NO_PRIVATE_KEY")


def _read_token(answer: HttpAnswer) -> AccessToken:
    with answer:
        content = answer.read("a token")
    try:
        found = msgspec.json.decode(content, type=_Answer, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = _Answer()
    token = (found.access_token or "").strip()
    if answer.status != 200 or not is_token(token):
        raise _refused(answer, found)
    return AccessToken(token, found.expires_in)


def _refused(answer: HttpAnswer, found: _Answer) -> AuthenticationError:
    said = ": ".join(filter(None, (found.error, found.error_description)))
    reason = without_secrets(said) if said else f"status {answer.status}"
    missing = "" if answer.status != 200 or said else " without a valid access_token"
    return AuthenticationError(
        f"{answer.server} issued no token: {reason}{missing}; check the profile, or ask the provider for a new one",
        status=answer.status,
        code="NO_TOKEN",
    )


_WARN_SECONDS = 7 * 24 * 3600


class Authorization(Protocol):
    """Thread-safe."""

    def header(self) -> str:
        """The header value. Raises `AuthenticationError` if there is none, and `UnavailableError`."""
        ...

    def renewed(self, refused: str) -> str | None:
        """A new value after the server rejected this one; None if no other can be had."""
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
