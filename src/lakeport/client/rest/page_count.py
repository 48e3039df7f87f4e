"""Guards against endless paging."""

from __future__ import annotations

from lakeport.client.http.limits import EMPTY_PAGES, PAGES, too_large
from lakeport.client.http.refusals import invalid_answer


class PageCount:
    """Counts the pages of one response. Raises `SharingError` if they seem endless or repeat."""

    def __init__(self, server: str, about: str) -> None:
        self._server, self._about = server, about
        self._pages = self._empty = 0
        self._tokens: set[int] = set()
        """Hashes, because tokens may be long."""

    def add(self, items: int, next_token: str | None) -> None:
        """Count a page with this many items, followed by the page of `next_token`."""
        self._pages += 1
        self._empty = 0 if items else self._empty + 1
        if self._pages >= PAGES:
            raise too_large(self._server, self._about, f"has more than {PAGES:,} pages")
        if self._empty >= EMPTY_PAGES:
            raise too_large(self._server, self._about, f"has {EMPTY_PAGES:,} pages in a row with nothing on them")
        if next_token is not None and hash(next_token) in self._tokens:
            raise invalid_answer(self._server, self._about, "its pages lead back to one that was there")
        self._tokens.add(hash(next_token))
