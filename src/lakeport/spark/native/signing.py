"""Signed URLs of files in object stores: tasks get these instead of storage credentials."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from lakeport.client.tables.local_log import SignedUrl
from lakeport.engine.storage.signing import SIGNED_FOR_AZURE
from lakeport.errors import StorageError
from lakeport.kernel.engine import StorageClient
from lakeport.locations import Cloud, cloud_of, store_root

_LIFE_SECONDS = 3600
_MARGIN = 0.2
"""A URL with less than this share of its lifetime left is not handed out."""


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
        self._known: dict[str, SignedUrl] = {}

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        """Raises `StorageError`."""
        known = self._known.get(path)
        if known is None or known.url == refused or _is_old(known):
            until = int((time.time() + _LIFE_SECONDS) * 1000)
            known = SignedUrl(self._storage.sign(path, _LIFE_SECONDS, anew=refused is not None), until)
            self._known[path] = known
        return known


def _is_old(signed: SignedUrl) -> bool:
    return signed.expires is not None and signed.expires < (time.time() + _LIFE_SECONDS * _MARGIN) * 1000
