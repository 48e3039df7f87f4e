"""Temporary credentials for a table's directory, as storage options; renewed before they expire."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lakeport.engine.storage.storage import Storage
from lakeport.errors import SharingError, UnsupportedFeatureError
from lakeport.freshness import Clock, Fresh, Renewed, renew_at
from lakeport.locations import cloud_of, scheme_of
from lakeport.sharing.models import Credentials

Ask = Callable[[], Credentials]
"""Requests credentials from the server. Raises `SharingError`."""

_LAST_SECOND = 253_402_300_799
"""The end of year 9999."""


class TemporaryStorage:
    """A storage reopened with new credentials when the old ones are about to expire or are rejected. Thread-safe."""

    def __init__(self, ask: Ask, options: Mapping[str, Any], now: Clock = time.time) -> None:
        self._ask, self._options, self._now = ask, options, now
        self._storage: Renewed[Storage] = Renewed(now)
        self._location = ""

    @property
    def location(self) -> str:
        """The directory that the credentials are for."""
        self.current()
        return self._location

    def current(self) -> Storage:
        return self._storage.current(self._open)

    def refused(self, storage: Storage) -> Storage:
        """A new storage in place of one whose credentials were rejected."""
        return self._storage.instead_of(storage, self._open)

    def _open(self) -> Fresh[Storage]:
        asked = self._now()
        given = self._ask()
        self._location = given.location.rstrip("/")
        storage = Storage({**self._options, **storage_options(given)})
        return Fresh(storage, renew_at(asked, given.expiration_time / 1000))


def storage_options(given: Credentials) -> dict[str, Any]:
    """The credentials under obstore's names. Raises `SharingError` if there are none of a known kind, and
    `UnsupportedFeatureError` for an unsupported location."""
    scheme = scheme_of(given.location)
    if cloud_of(given.location) is None and scheme != "https":
        raise UnsupportedFeatureError(
            f"the directory of the table is in a storage that Lakeport does not support "
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
        "the server sent no temporary credentials of a supported kind; tell the provider",
        status=200,
        code="INVALID_ANSWER",
    )


def _google_token(token: str, expires_ms: int) -> Callable[[], dict[str, Any]]:
    expires = datetime.fromtimestamp(min(max(0, expires_ms // 1000), _LAST_SECOND), UTC)
    return lambda: {"token": token, "expires_at": expires}
