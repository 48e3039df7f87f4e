"""The forms in which a profile can be given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO, Any

import msgspec

from lakeport.kernel.paths import resolve_path
from lakeport.sharing.profile import Profile, parse_profile, read_profile

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
