"""Profiles: the file with which a recipient connects to a server. See "Profile File Format" in the protocol.

Version 1 has a bearer token; version 2 has one of several kinds of credentials. Secrets never appear in `repr` or in
messages.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lakeport.errors import SharingError
from lakeport.sharing.timestamps import parse_timestamp

NEWEST_VERSION = 2
_URL = re.compile(r"https?://[^/\s\\?#]+[^\s\\]*", re.IGNORECASE)
_TOKEN = re.compile(r"[!-~]+")
_MARK = "\ufeff"
"""The byte order mark, which some editors put before UTF-8 text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    token: str = field(repr=False)
    expiration_time: str | None = None
    """ISO 8601, as in the profile; None if the token never expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basic:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClientCredentials:
    token_endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthPrivateKeyJwt:
    """Exchanges a token signed with the recipient's own key for an access token."""

    token_endpoint: str
    issuer: str
    client_id: str
    audience: str
    private_key_file: str
    key_id: str | None = None
    algorithm: str | None = None
    scope: str | None = None


ProfileCredentials = BearerToken | Basic | OAuthClientCredentials | OAuthPrivateKeyJwt


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    endpoint: str
    """The URL of the server, without a trailing slash."""
    credentials: ProfileCredentials
    version: int = 1

    @property
    def expires(self) -> int | None:
        """When the token expires, in milliseconds since the epoch; None for never, or without a fixed token."""
        if not isinstance(self.credentials, BearerToken) or self.credentials.expiration_time is None:
            return None
        return parse_timestamp(self.credentials.expiration_time, "expirationTime")

    def is_expired(self, now_ms: int) -> bool:
        return self.expires is not None and self.expires <= now_ms


def read_profile(path_or_text: str | os.PathLike[str]) -> Profile:
    """Read a profile from a file, or from its JSON text, which begins with a brace.

    Raises `ValueError` if it is not a profile, and `OSError` if the file cannot be read."""
    if isinstance(path_or_text, str) and path_or_text.lstrip(f"{_MARK} \t\r\n").startswith("{"):
        return parse_profile(path_or_text)
    path = Path(path_or_text)
    if not path.is_file():
        raise FileNotFoundError(f"no profile at {path}: pass the path of the profile file that the provider sent you")
    return parse_profile(path.read_bytes(), f"the profile {path}")


def is_token(text: str) -> bool:
    """Whether the text can be sent as a token: headers allow visible ASCII only."""
    return _TOKEN.fullmatch(text) is not None


def parse_profile(text: str | bytes, what: str = "the profile") -> Profile:
    """Parse the JSON text of a profile. Raises `ValueError`, which calls the text `what` and never quotes it."""
    try:
        decoded = text if isinstance(text, str) else text.decode()
        body = msgspec.json.decode(decoded.removeprefix(_MARK), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ValueError(f"{what} is not a JSON object: ask the provider for it again") from None
    reader = _Reader(body, what)
    version = reader.version()
    profile = Profile(endpoint=reader.endpoint(), credentials=reader.credentials(version), version=version)
    try:
        _ = profile.expires
    except SharingError as error:
        raise ValueError(f"{what} cannot be used: {error}") from None
    return profile


def format_profile(profile: Profile) -> str:
    """The JSON text of a profile."""
    head: dict[str, Any] = {"shareCredentialsVersion": profile.version}
    if profile.version > 1:
        head["type"] = _TYPES[type(profile.credentials)]
    body = head | {"endpoint": profile.endpoint} | _format_credentials(profile.credentials)
    return msgspec.json.format(msgspec.json.encode(_without_nulls(body)), indent=2).decode() + "\n"


_TYPES: dict[type[ProfileCredentials], str] = {
    BearerToken: "bearer_token",
    Basic: "basic",
    OAuthClientCredentials: "oauth_client_credentials",
    OAuthPrivateKeyJwt: "oauth_jwt_bearer_private_key_jwt",
}


def _format_credentials(credentials: ProfileCredentials) -> dict[str, Any]:
    match credentials:
        case BearerToken():
            return {"bearerToken": credentials.token, "expirationTime": credentials.expiration_time}
        case Basic():
            return {"username": credentials.username, "password": credentials.password}
        case OAuthClientCredentials():
            return {
                "tokenEndpoint": credentials.token_endpoint,
                "clientId": credentials.client_id,
                "clientSecret": credentials.client_secret,
                "scope": credentials.scope,
            }
        case OAuthPrivateKeyJwt():
            key = {"privateKeyFile": credentials.private_key_file, "keyId": credentials.key_id}
            return {
                "auth": {
                    "tokenEndpoint": credentials.token_endpoint,
                    "issuer": credentials.issuer,
                    "clientId": credentials.client_id,
                    "audience": credentials.audience,
                    "scope": credentials.scope,
                    "privateKey": key | {"algorithm": credentials.algorithm},
                }
            }


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}


class _Reader:
    """Takes fields from a JSON object; every error is a `ValueError` that names the field."""

    def __init__(self, body: dict[str, Any], what: str) -> None:
        self._body, self._what = body, what

    def version(self) -> int:
        text = str(self._body.get("shareCredentialsVersion")).removesuffix(".0")
        if not re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII):
            raise ValueError(f"{self._what} has no valid shareCredentialsVersion: it must be 1 or more")
        if int(text) > NEWEST_VERSION:
            raise ValueError(
                f"{self._what} has shareCredentialsVersion {text}, but this version of Lakeport reads only "
                f"{NEWEST_VERSION} and below: upgrade Lakeport"
            )
        return int(text)

    def credentials(self, version: int) -> ProfileCredentials:
        kind = "bearer_token" if version == 1 else self.text("type").lower()
        match kind:
            case "bearer_token":
                return BearerToken(token=self.token("bearerToken"), expiration_time=self.optional("expirationTime"))
            case "basic":
                return Basic(username=self.text("username"), password=self.text("password"))
            case "oauth_client_credentials":
                return OAuthClientCredentials(
                    token_endpoint=self.url("tokenEndpoint"),
                    client_id=self.text("clientId"),
                    client_secret=self.text("clientSecret"),
                    scope=self.optional("scope"),
                )
            case "oauth_jwt_bearer_private_key_jwt":
                return self._inner("auth")._private_key_jwt()
        raise ValueError(f"{self._what} has the unknown type {kind[:50]!r}; use one of {', '.join(_TYPES.values())}")

    def _private_key_jwt(self) -> OAuthPrivateKeyJwt:
        key = self._inner("privateKey")
        return OAuthPrivateKeyJwt(
            token_endpoint=self.url("tokenEndpoint"),
            issuer=self.text("issuer"),
            client_id=self.text("clientId"),
            audience=self.text("audience"),
            private_key_file=key.text("privateKeyFile"),
            key_id=key.optional("keyId"),
            algorithm=key.optional("algorithm"),
            scope=self.optional("scope"),
        )

    def _inner(self, name: str) -> _Reader:
        inner = self._body.get(name)
        if not isinstance(inner, dict):
            raise ValueError(f"{self._what} has no {name} object")
        return _Reader(inner, f"{name} in {self._what}")

    def optional(self, name: str) -> str | None:
        value = self._body.get(name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{self._what} has a {name} that is not text")
        return value or None

    def text(self, name: str) -> str:
        value = self.optional(name)
        if value is None:
            raise ValueError(f"{self._what} has no {name}")
        return value

    def token(self, name: str) -> str:
        value = self.text(name).strip()
        if not is_token(value):
            raise ValueError(
                f"{self._what} has a {name} with characters that headers do not allow: ask the provider for it again"
            )
        return value

    def endpoint(self) -> str:
        value = self.url("endpoint")
        if "?" in value or "#" in value:
            raise ValueError(f"{self._what} has an endpoint with a query or a fragment: remove what follows the path")
        return value

    def url(self, name: str) -> str:
        value = self.text(name).strip()
        if not _URL.fullmatch(value):
            raise ValueError(f"{self._what} has a {name} that is not an http or https URL")
        return value.rstrip("/")
