"""Signed URLs: who has one may read one file, for a while, without a token.

Files in an object store are read from there; files on a disk from this server, by `lakeport.server.files`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from lakeport.engine.storage.objects import open_store, store_root
from lakeport.server.catalog.model import Table
from lakeport.server.signing.disk import DiskPlace, FileUrls
from lakeport.server.signing.objects import object_place
from lakeport.server.signing.places import Place, TableSigner, table_roots

if TYPE_CHECKING:
    from obstore import SignCapableStore

__all__ = ["Signers", "UrlSigner"]


class UrlSigner(Protocol):
    """Signs the files of one table. Its methods may be called from any thread."""

    def sign(self, paths: Sequence[str]) -> list[str]:
        """A URL for each of the plain absolute paths, in their order. It blocks.

        The URL of a path may differ from call to call: within one answer, sign a path once.
        Raises `SharingError` (400) for a path outside of the table's locations, `StorageError` if the store fails.
        """

    def expires(self, now_ms: int) -> int:
        """Until when what is signed from now on is good, at the least; both in milliseconds since the epoch."""


class Signers:
    """Makes the signers of tables. URLs are good for so many `seconds`.

    `endpoint` is the path under which the server answers (`/delta-sharing`); `storage` are options of object stores,
    by obstore's names, which those of a table come before. `now` gives seconds since the epoch.
    """

    def __init__(
        self,
        key: bytes,
        *,
        endpoint: str,
        seconds: int,
        storage: Mapping[str, Any] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._urls = FileUrls(key, endpoint)
        self._seconds, self._storage, self._now = seconds, dict(storage or {}), now
        self._stores = lru_cache(maxsize=256)(_opened)

    def for_table(self, table: Table, public_url: str, recipient_id: str) -> UrlSigner:
        """`public_url` is where recipients reach this server, without the endpoint: `https://sharing.example.org`. URLs
        of files on a disk end with the access of the recipient.

        Raises `StorageError` if a store cannot be opened.
        """
        places = [self._place(table, root, public_url, recipient_id) for root in table_roots(table)]
        return TableSigner(table, places, self._seconds)

    def _place(self, table: Table, root: str, public_url: str, recipient_id: str) -> Place:
        if root.startswith("/"):
            return DiskPlace(root, table.id, self._urls, public_url, self._seconds, self._now, recipient_id)
        options = tuple(sorted(table.storage_options(self._storage).items()))
        return object_place(root, self._stores(store_root(root), options), self._seconds, self._now)


def _opened(root: str, options: tuple[tuple[str, Any], ...]) -> SignCapableStore:
    # Catalogs name no places but S3, GCS, Azure and disks (`parse_location`): what is no disk can sign.
    return cast("SignCapableStore", open_store(root, dict(options)))
