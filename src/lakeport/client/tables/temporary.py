"""Temporary credentials for a table's directory, as storage options; renewed before they expire."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from lakeport.engine.storage.storage import Storage
from lakeport.errors import SharingError, UnsupportedFeatureError
from lakeport.locations import cloud_of, scheme_of
from lakeport.sharing.models import Credentials

Ask = Callable[[], Credentials]
"""Requests credentials from the server. Raises `SharingError`."""

_MARGIN = 0.2
"""Credentials are renewed when this fraction of their lifetime is left."""
_LONGEST_MARGIN_MS = 5 * 60_000
_LAST_SECOND = 253_402_300_799
"""The end of year 9999."""


class TemporaryStorage:
    """A storage reopened with new credentials when the old ones are about to expire or are rejected. Thread-safe: one
    thread renews, the others wait."""

    def __init__(self, ask: Ask, options: Mapping[str, Any], now: Callable[[], float] = time.time) -> None:
        self._ask, self._options, self._now = ask, options, now
        self._lock = Lock()
        self._storage: Storage | None = None
        self._renew_ms = 0.0
        self._location = ""

    @property
    def location(self) -> str:
        """The directory that the credentials are for."""
        self.current()
        return self._location

    def current(self) -> Storage:
        with self._lock:
            if self._storage is None or self._now() * 1000 >= self._renew_ms:
                self._storage = self._renewed()
            return self._storage

    def refused(self, storage: Storage) -> Storage:
        """A new storage in place of one whose credentials were rejected."""
        with self._lock:
            if self._storage is None or self._storage is storage:
                self._storage = self._renewed()
            return self._storage

    def _renewed(self) -> Storage:
        """Credentials that arrive expired are used until they are rejected: clocks differ."""
        asked_ms = self._now() * 1000
        given = self._ask()
        lifetime = given.expiration_time - asked_ms
        margin = min(_MARGIN * lifetime, _LONGEST_MARGIN_MS)
        self._renew_ms = given.expiration_time - margin if lifetime > 0 else math.inf
        self._location = given.location.rstrip("/")
        return Storage({**self._options, **storage_options(given)})


def storage_options(given: Credentials) -> dict[str, Any]:
    """The credentials under obstore's names. Raises `SharingError` if there are none of a known kind, and
    `UnsupportedFeatureError` for an unsupported location."""
    scheme = scheme_of(given.location)
    if cloud_of(given.location) is None and scheme != "https":
        raise UnsupportedFeatureError(
            f"the table is shared by its directory, and that is in a storage which Lakeport does not read "
            f"({scheme or 'a disk'}); ask the provider to share it by signed URLs",
            features=["dir access"],
        )
    if (aws := given.aws_temp_credentials) is not None:
        return {
            "access_key_id": aws.access_key_id,
            "secret_access_key": aws.secret_access_key,
            "session_token": aws.session_token,
        }
    if (azure := given.azure_user_delegation_sas) is not None:
        return {"sas_key": azure.sas_token.removeprefix("?")}
    if (google := given.gcp_oauth_token) is not None:
        return {"credential_provider": _google_token(google.oauth_token, given.expiration_time)}
    raise SharingError(
        "the server gave no temporary credentials of a kind that Lakeport knows; tell the provider",
        status=200,
        code="INVALID_ANSWER",
    )


def _google_token(token: str, expires_ms: int) -> Callable[[], dict[str, Any]]:
    expires = datetime.fromtimestamp(min(max(0, expires_ms // 1000), _LAST_SECOND), UTC)
    return lambda: {"token": token, "expires_at": expires}
