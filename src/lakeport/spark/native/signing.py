"""Signed URLs of files in object stores: tasks get these instead of storage credentials."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from lakeport.client.tables.local_log import SignedUrl
from lakeport.engine.storage.signing import SIGNED_FOR_AZURE
from lakeport.errors import StorageError
from lakeport.freshness import Fresh, RenewedValues, renew_at
from lakeport.kernel.engine import StorageClient
from lakeport.locations import Cloud, cloud_of, store_root

_LIFE_SECONDS = 3600


class Signing(Protocol):
    """A storage that can sign URLs of its files."""

    def sign(self, path: str, seconds: int, *, anew: bool = False) -> str:
        """A URL to read a file for a while; `anew` if the last one was rejected. Raises `StorageError`."""


def why_not_signed(paths: Sequence[str], storage: StorageClient) -> str | None:
    """Why Spark's own reader cannot reach files in object stores by URL; None if it can."""
    if not hasattr(storage, "sign"):
        return "the engine's storage does not sign URLs"
    if any(cloud_of(path) is Cloud.AZURE and not SIGNED_FOR_AZURE.fullmatch(path) for path in paths):
        return "names of its files cannot be signed for Azure"
    try:
        for path in {store_root(path): path for path in paths}.values():
            storage.sign(path, 1)
    except StorageError:  # the details do not matter: Python reads it instead
        return "the storage does not sign URLs with the credentials that there are"
    return None


class SignedObjects:
    """The signed URLs of a storage's files. Thread-safe."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage: Signing = storage  # type: ignore[assignment]  # checked by `why_not_signed`
        self._urls: RenewedValues[SignedUrl] = RenewedValues()

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        """Raises `StorageError`."""
        url = self._urls.of(path)
        signed = url.current(lambda: self._sign(path))
        return url.instead_of(signed, lambda: self._sign(path, anew=True)) if signed.url == refused else signed

    def _sign(self, path: str, *, anew: bool = False) -> Fresh[SignedUrl]:
        now = time.time()
        signed = SignedUrl(self._storage.sign(path, _LIFE_SECONDS, anew=anew), int((now + _LIFE_SECONDS) * 1000))
        return Fresh(signed, renew_at(now, now + _LIFE_SECONDS))
