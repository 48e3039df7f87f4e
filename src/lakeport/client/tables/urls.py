"""The URLs of an answer's files, kept fresh: asked for again before they expire, and when the storage refuses one."""

from __future__ import annotations

import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from lakeport.client.tables.local_log import SignedUrl
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
        self._urls: Mapping[str, SignedUrl] = {}
        self._taken_ms = 0.0
        self._take(urls)

    def __reduce__(self) -> tuple[Callable[..., FreshUrls], tuple[Mapping[str, SignedUrl], Fetch, float]]:
        """In another process there is one for all parts of an answer: what one part asks for, all of them have."""
        return _joined, (self._urls, self._fetch, self._taken_ms)

    def part(self, paths: Iterable[str]) -> FreshUrls:
        """The same for some of the files, good for a while: who gets them need not ask at once for all of them."""
        part = FreshUrls({path: self.signed(path) for path in paths}, self._fetch, self._now)
        part._taken_ms = self._taken_ms
        return part

    def current(self, path: str) -> str:
        return self.signed(path).url

    def signed(self, path: str) -> SignedUrl:
        """A URL that is good for a while, and until when."""
        signed = self._urls[path]
        if self._is_fresh(signed):
            return signed
        with self._lock:
            if not self._is_fresh(self._urls[path]):
                self._renew()
            return self._urls[path]

    def refused(self, path: str, url: str) -> str:
        with self._lock:
            if self._urls[path].url == url:
                self._renew()
            return self._urls[path].url

    def add(self, urls: Mapping[str, SignedUrl]) -> None:
        """More files of the same answer. What was asked for since is newer."""
        with self._lock:
            self._urls = {**urls, **self._urls}

    def _take(self, urls: Mapping[str, SignedUrl]) -> None:
        self._taken_ms = self._now() * 1000
        self._urls = dict(urls)

    def _is_fresh(self, signed: SignedUrl) -> bool:
        """A URL of unknown life is good until the storage says otherwise; so is one that had expired when it came,
        because the clocks differ."""
        if signed.expires is None or signed.expires <= self._taken_ms:
            return True
        margin = min(_MARGIN * (signed.expires - self._taken_ms), _LONGEST_MARGIN_MS)
        return self._now() * 1000 < signed.expires - margin

    def _renew(self) -> None:
        renewed = self._fetch()
        if missing := self._urls.keys() - renewed.keys():
            raise SharingError(
                f"the server did not renew the URLs of {len(missing)} of {len(self._urls)} files; read the table again",
                status=502,
                code="URLS_NOT_RENEWED",
            )
        self._take(renewed)


_answers: OrderedDict[bytes, FreshUrls] = OrderedDict()
_answers_lock = Lock()
_MOST_ANSWERS = 16
"""As many are remembered; who uses another one keeps it by himself."""


def _joined(urls: Mapping[str, SignedUrl], fetch: Fetch, taken_ms: float) -> FreshUrls:
    """The URLs, together with those of other parts of the same answer that came before."""
    key = pickle.dumps(fetch)
    with _answers_lock:
        known = _answers.pop(key, None)
        if known is None:
            known = FreshUrls({}, fetch)
            known._taken_ms = taken_ms
        _answers[key] = known
        while len(_answers) > _MOST_ANSWERS:
            _answers.popitem(last=False)
    known.add(urls)
    return known
