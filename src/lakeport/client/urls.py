"""The URLs of an answer's files, kept fresh: asked for again before they expire, and when the storage refuses one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Lock

from lakeport.client.local_log import SignedUrl
from lakeport.errors import SharingError

Fetch = Callable[[], Mapping[str, SignedUrl]]

_MARGIN = 0.2
"""URLs are renewed when this part of their life is left: who starts to read a file then is through before it ends."""
_LONGEST_MARGIN_MS = 5 * 60_000


class FreshUrls:
    """URLs by the paths of files. `fetch` asks the server for all of them again; it raises `SharingError` if the
    server no longer has that version. Safe to use from several threads: one asks, the others wait."""

    def __init__(self, urls: Mapping[str, SignedUrl], fetch: Fetch, now: Callable[[], float] = time.time) -> None:
        self._fetch, self._now = fetch, now
        self._lock = Lock()
        self._take(urls)

    def current(self, path: str) -> str:
        signed = self._urls[path]
        if self._is_fresh(signed):
            return signed.url
        with self._lock:
            if not self._is_fresh(self._urls[path]):
                self._renew()
            return self._urls[path].url

    def refused(self, path: str, url: str) -> str:
        with self._lock:
            if self._urls[path].url == url:
                self._renew()
            return self._urls[path].url

    def _take(self, urls: Mapping[str, SignedUrl]) -> None:
        self._taken_ms = self._now() * 1000
        self._urls = dict(urls)

    def _is_fresh(self, signed: SignedUrl) -> bool:
        """A URL of unknown life is good until the storage says otherwise."""
        if signed.expires is None:
            return True
        margin = min(_MARGIN * (signed.expires - self._taken_ms), _LONGEST_MARGIN_MS)
        return self._now() * 1000 < signed.expires - max(margin, 0)

    def _renew(self) -> None:
        renewed = self._fetch()
        if missing := self._urls.keys() - renewed.keys():
            raise SharingError(
                f"the server did not renew the URLs of {len(missing)} of {len(self._urls)} files; read the table again",
                status=502,
                code="URLS_NOT_RENEWED",
            )
        self._take(renewed)
