"""Signed URLs: the holder of one may read one file, for a while, without a token.

Object stores serve their files directly; this server serves files on disk, with `lakeport.server.files`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from lakeport.engine.storage.objects import open_store
from lakeport.locations import is_url, store_root
from lakeport.server.catalog.model import Table, table_roots
from lakeport.server.signing.disk import DiskPlace, FileUrls
from lakeport.server.signing.objects import object_place
from lakeport.server.signing.table_signer import Place, TableSigner

if TYPE_CHECKING:
    from obstore import SignCapableStore

__all__ = ["Signers", "TableSigner"]


class Signers:
    """Makes the signers of tables. URLs are valid for `seconds`.

    `endpoint` is the path of the API (`/delta-sharing`); `storage` are object store options by obstore's names,
    overridden by a table's own. `now` returns seconds since the epoch.
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

    def for_table(self, table: Table, public_url: str, recipient_id: str) -> TableSigner:
        """`public_url` is where recipients reach this server, without the endpoint: `https://sharing.example.org`. URLs
        of files on disk stop working when the recipient loses access.

        Raises `StorageError` if a store cannot be opened.
        """
        places = [self._place(table, root, public_url, recipient_id) for root in table_roots(table)]
        return TableSigner(table, places, self._seconds)

    def _place(self, table: Table, root: str, public_url: str, recipient_id: str) -> Place:
        if not is_url(root):
            return DiskPlace(root, table.id, self._urls, public_url, self._seconds, self._now, recipient_id)
        options = tuple(sorted(table.storage_options(self._storage).items()))
        return object_place(root, self._stores(store_root(root), options), self._seconds, self._now)


def _opened(root: str, options: tuple[tuple[str, Any], ...]) -> SignCapableStore:
    # Catalogs only allow S3, GCS, Azure and disks (`normalize_location`): anything but a disk can sign.
    return cast("SignCapableStore", open_store(root, dict(options)))
