"""Keep the URLs of a response's files fresh: renew them before they expire, and when storage rejects one."""

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
"""URLs are renewed when this fraction of their lifetime is left, so that reads begun before then can finish."""
_LONGEST_MARGIN_MS = 5 * 60_000


class FreshUrls:
    """URLs by file path. `fetch` requests all of them again; it raises `SharingError` if the server no longer has that
    version. Thread-safe: one thread renews, the others wait."""

    def __init__(self, urls: Mapping[str, SignedUrl], fetch: Fetch, now: Callable[[], float] = time.time) -> None:
        self._fetch, self._now = fetch, now
        self._lock = Lock()
        self._urls: Mapping[str, SignedUrl] = {}
        self._taken_ms = 0.0
        self._take(urls)

    def __reduce__(self) -> tuple[Callable[..., FreshUrls], tuple[Mapping[str, SignedUrl], Fetch, float]]:
        """Another process keeps one instance for all parts of a response, so renewals are shared."""
        return _joined, (self._urls, self._fetch, self._taken_ms)

    def part(self, paths: Iterable[str]) -> FreshUrls:
        """The URLs of some files, still valid for a while, so the receiver need not renew them all at once."""
        part = FreshUrls({path: self.signed(path) for path in paths}, self._fetch, self._now)
        part._taken_ms = self._taken_ms
        return part

    def current(self, path: str) -> str:
        return self.signed(path).url

    def signed(self, path: str) -> SignedUrl:
        """A URL that is valid for a while, and its expiry."""
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
        """Add files of the same response. URLs renewed since take precedence."""
        with self._lock:
            self._urls = {**urls, **self._urls}

    def _take(self, urls: Mapping[str, SignedUrl]) -> None:
        self._taken_ms = self._now() * 1000
        self._urls = dict(urls)

    def _is_fresh(self, signed: SignedUrl) -> bool:
        """A URL of unknown lifetime is valid until storage rejects it; so is one that arrived expired, because clocks
        differ."""
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
"""This many are remembered; evicted ones still work for their users, but unshared."""


def _joined(urls: Mapping[str, SignedUrl], fetch: Fetch, taken_ms: float) -> FreshUrls:
    """The URLs, merged with those of earlier parts of the same response."""
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
