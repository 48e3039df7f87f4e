"""Tokens from a profile's token endpoint, for a client secret or a private key.

See RFC 6749 (section 4.4), RFC 7523 (section 2.1), and the profile types in the protocol.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec

from lakeport.client.http.answer import HttpAnswer
from lakeport.client.http.pool import HttpPool
from lakeport.client.http.refusals import without_secrets
from lakeport.errors import AuthenticationError
from lakeport.sharing.profile import OAuthClientCredentials, OAuthPrivateKeyJwt, is_token

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
