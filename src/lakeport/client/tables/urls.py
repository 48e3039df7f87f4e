"""Keep the URLs of a response's files fresh: renew them before they expire, and when storage rejects one."""

from __future__ import annotations

import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import NamedTuple

from lakeport.engine.storage.signing import SignedUrl
from lakeport.errors import SharingError
from lakeport.freshness import Clock, Fresh, Renewed, renew_at

Fetch = Callable[[], Mapping[str, SignedUrl]]


class _Urls(NamedTuple):
    """URLs by file path, and when they were taken, in seconds since the epoch."""

    signed: Mapping[str, SignedUrl]
    taken: float

    def is_old(self, path: str, refused: str | None, now: float) -> bool:
        url, expires = self.signed[path].url, self.signed[path].expires
        return url == refused or (expires is not None and renew_at(self.taken, expires / 1000) <= now)


class FreshUrls:
    """URLs by file path. `fetch` requests all of them again; it raises `SharingError` if the server no longer has that
    version. Thread-safe."""

    def __init__(
        self, urls: Mapping[str, SignedUrl], fetch: Fetch, now: Clock = time.time, taken: float | None = None
    ) -> None:
        self._fetch, self._now = fetch, now
        self._urls: Renewed[_Urls] = Renewed(now, Fresh(_Urls(urls, now() if taken is None else taken)))

    def __reduce__(self) -> tuple[Callable[..., FreshUrls], tuple[_Urls, Fetch]]:
        """Another process keeps one instance for all parts of a response, so renewals are shared."""
        return _joined, (self._known, self._fetch)

    @property
    def _known(self) -> _Urls:
        assert self._urls.latest is not None
        return self._urls.latest.value

    def part(self, paths: Iterable[str]) -> FreshUrls:
        """The URLs of some files, still valid for a while, so the receiver need not renew them all at once."""
        urls = {path: self.signed(path) for path in paths}
        return FreshUrls(urls, self._fetch, self._now, self._known.taken)

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        """A URL that is valid for a while, other than the one that was rejected. Raises `SharingError`."""
        return self._urls.get(lambda urls: urls.value.is_old(path, refused, self._now()), self._renew).signed[path]

    def add(self, urls: Mapping[str, SignedUrl]) -> None:
        """Add files of the same response. URLs renewed since take precedence."""
        with self._urls.lock:
            self._urls.latest = Fresh(_Urls({**urls, **self._known.signed}, self._known.taken))

    def _renew(self) -> Fresh[_Urls]:
        known, renewed = self._known.signed, self._fetch()
        if missing := known.keys() - renewed.keys():
            raise SharingError(
                f"the server did not renew the URLs of {len(missing)} of {len(known)} files; read the table again",
                status=502,
                code="URLS_NOT_RENEWED",
            )
        return Fresh(_Urls(renewed, self._now()))


_answers: OrderedDict[bytes, FreshUrls] = OrderedDict()
_answers_lock = Lock()
_MOST_ANSWERS = 16
"""The number of cached instances. Evicted ones still work, but are no longer shared."""


def _joined(urls: _Urls, fetch: Fetch) -> FreshUrls:
    """The URLs, merged with those of earlier parts of the same response."""
    key = pickle.dumps(fetch)
    with _answers_lock:
        known = _answers.setdefault(key, FreshUrls({}, fetch, taken=urls.taken))
        _answers.move_to_end(key)
        while len(_answers) > _MOST_ANSWERS:
            _answers.popitem(last=False)
    known.add(urls.signed)
    return known
