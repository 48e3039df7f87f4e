"""`Signers` make the signers of tables; a `TableSigner` signs one table's files, which may be in several places."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from lakeport.engine.storage.objects import open_store
from lakeport.errors import SharingError
from lakeport.locations import is_url, parse_location, store_root
from lakeport.server.catalog.model import Table, table_roots
from lakeport.server.signing.disk import DiskPlace, FileUrls
from lakeport.server.signing.objects import object_place

if TYPE_CHECKING:
    from obstore import SignCapableStore

_log = logging.getLogger(__name__)

_STEPS = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")
"""A segment that is empty, `.` or `..`."""


class Place(Protocol):
    """A directory and everything below it."""

    @property
    def root(self) -> str:
        """Without a trailing slash."""

    def sign(self, relative: Sequence[str]) -> list[str]:
        """URLs of files, by their clean paths below the root."""


def is_clean(relative: str) -> bool:
    """Whether a relative path is canonical: it does not leave the root and has no second spelling."""
    steps = "//" in relative or "/." in relative or relative[:1] in ("", ".", "/") or relative[-1] == "/"
    return not (steps and _STEPS.search(relative))


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


class TableSigner:
    """Signs the files of one table, if they are in one of its places. Thread-safe."""

    def __init__(self, table: Table, places: Sequence[Place], seconds: int) -> None:
        self._table, self._places, self._seconds = table, places, seconds
        self._prefixes = [f"{place.root}/" for place in places]

    def expires(self, now_ms: int) -> int:
        """The earliest expiry of URLs signed from now on; both in milliseconds since the epoch."""
        return (now_ms // 1000 + self._seconds) * 1000

    def sign(self, paths: Sequence[str]) -> list[str]:
        """Return a URL for each absolute, unencoded path, in order. Blocks.

        The URL of a path may differ between calls: within one answer, sign a path once.
        Raises `SharingError` (400) for a path outside the table's locations, `StorageError` if the store fails.
        """
        home = self._prefixes[0]
        below = [path[len(home) :] for path in paths if path.startswith(home)]
        if len(below) == len(paths) and all(map(is_clean, below)):  # nearly always; the fast path
            return self._places[0].sign(below)
        return self._sign_by_place([self._locate(path) for path in paths])

    def _sign_by_place(self, located: Sequence[tuple[int, str]]) -> list[str]:
        urls = [""] * len(located)
        for number, place in enumerate(self._places):
            rows = [row for row, (found, _) in enumerate(located) if found == number]
            signed = place.sign([located[row][1] for row in rows]) if rows else []
            for row, url in zip(rows, signed, strict=True):
                urls[row] = url
        return urls

    def _locate(self, path: str) -> tuple[int, str]:
        """The index of the place, and the path below its root."""
        return self._below_root(path) or self._below_root(_respelled(path)) or self._refuse(path)

    def _below_root(self, path: str) -> tuple[int, str] | None:
        for number, prefix in enumerate(self._prefixes):
            if path.startswith(prefix) and is_clean(relative := path[len(prefix) :]):
                return number, relative
        return None

    def _refuse(self, path: str) -> NoReturn:
        table = self._table
        name = f"{table.share}.{table.schema}.{table.name}"
        _log.warning("%s has a file outside its location and auxiliaryLocations: %s", name, path)
        raise SharingError(
            f"the table {name} has files outside its location, which are not shared; "
            "ask its provider to add their directory to the table's auxiliaryLocations",
            status=400,
            code="UNSUPPORTED_OPERATION",
        )


def _respelled(path: str) -> str:
    """The path of an object as the catalog spells its location: a log may use `s3a://` for `s3://`."""
    try:
        return "" if path.endswith("/") else str(parse_location(path))
    except ValueError:
        return ""
