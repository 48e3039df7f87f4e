"""Which version or range a request is about, and the tokens that fix it for the next request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from lakeport.errors import CorruptTableError
from lakeport.server.access.tokens import TokenSigner
from lakeport.server.answers.opened_tables import CachedTable, SharedSnapshot, TableCache
from lakeport.server.answers.plan import Page
from lakeport.server.answers.range import Cursor, SharedRange
from lakeport.server.answers.snapshot import Position
from lakeport.server.answers.table_request import TableRequest
from lakeport.server.http.refusals import invalid
from lakeport.sharing.models import ChangesRequest, QueryRequest
from lakeport.sharing.timestamps import parse_timestamp

P = TypeVar("P")
R = TypeVar("R", QueryRequest, ChangesRequest)


@dataclass(frozen=True, kw_only=True)
class QueryRules:
    """Settings of queries."""

    page_size_limit: int = 10_000
    page_token_seconds: float = 259_200
    refresh_token_seconds: float = 3_600
    use_sql_hints: bool = True
    use_json_hints: bool = True


class _Refresh(msgspec.Struct, frozen=True, array_like=True):
    table: str
    recipient: str
    version: int


@dataclass(frozen=True)
class Versions:
    """Finds the versions of shared tables that a recipient may read."""

    cache: TableCache
    tokens: TokenSigner
    rules: QueryRules = QueryRules()

    def number(self, table_request: TableRequest, starting_timestamp: str | None) -> int:
        """The latest version; with a timestamp, the first version at or after it."""
        table_request.check_history(starting_timestamp)
        table = self.cache.table(table_request.table)
        if starting_timestamp is None:
            version = table.latest().version
        else:
            version = _first_since(table, parse_timestamp(starting_timestamp, "startingTimestamp"))
        table_request.check_start(version)
        return version

    def snapshot(
        self, table_request: TableRequest, version: int | None, timestamp: str | None, pinned: int | None = None
    ) -> SharedSnapshot:
        """The requested version; by default the pinned one, or else the latest."""
        table_request.check_history(version, timestamp)
        table = self.cache.table(table_request.table)
        if version is not None and timestamp is not None:
            raise invalid("pass only one of version and timestamp")
        if timestamp is not None:
            version = table.commit_times().version_at(parse_timestamp(timestamp, "timestamp"))
        wanted = version if version is not None else pinned
        shared = table.latest() if wanted is None else table.at_version(wanted)
        table_request.check_start(shared.version)
        return shared

    def of_query(self, table_request: TableRequest, request: QueryRequest) -> tuple[SharedSnapshot, Page[Position]]:
        fingerprint = _fingerprint(table_request, request)
        if page := self._page(request.page_token, fingerprint, Page[Position]):
            table_request.check_start(page.first)
            return self.cache.table(table_request.table).at_version(page.first), page
        shared = self.snapshot(
            table_request, request.version, request.timestamp, self._refreshed(table_request, request)
        )
        return shared, Page(fingerprint, shared.version, shared.version)

    def of_stream(self, table_request: TableRequest, request: QueryRequest) -> tuple[SharedRange, Page[Cursor]]:
        return self._range(table_request, request, _stream_range)

    def of_changes(self, table_request: TableRequest, request: ChangesRequest) -> tuple[SharedRange, Page[Cursor]]:
        if not table_request.table.history_shared:
            raise invalid(
                f"the changes of the table {table_request.table_name} are not shared, because its history is not; ask "
                "its provider for historyShared"
            )
        commits, page = self._range(table_request, request, _change_range)
        commits.check_feed()
        return commits, page

    def page_size(self, request: QueryRequest | ChangesRequest) -> int | None:
        """The most files of a page; None if the answer is not divided into pages."""
        if request.max_files is None and request.page_token is None:
            return None
        return min(request.max_files or self.rules.page_size_limit, self.rules.page_size_limit)

    def page_token(self, page: Page[Any]) -> str:
        return self.tokens.sign("page", page, self.rules.page_token_seconds)

    def refresh_token(self, table_request: TableRequest, version: int) -> str:
        content = _Refresh(table_request.table.id, table_request.recipient.id, version)
        return self.tokens.sign("refresh", content, self.rules.refresh_token_seconds)

    def _range(
        self, table_request: TableRequest, request: R, find: Callable[[CachedTable, R], tuple[int, int]]
    ) -> tuple[SharedRange, Page[Cursor]]:
        fingerprint = _fingerprint(table_request, request)
        page = self._page(request.page_token, fingerprint, Page[Cursor])
        table = self.cache.table(table_request.table)
        first, last = (page.first, page.last) if page else find(table, request)
        table_request.check_start(first)
        end = table.at_version(last)  # caches the range for later pages
        commits = end.kept(first, lambda: SharedRange(table.at_version(first).delta, end.delta))
        return commits, page or Page(fingerprint, first, last)

    def _page(self, token: str | None, fingerprint: str, kind: type[Page[P]]) -> Page[P] | None:
        page = self.tokens.read("page", token, kind) if token else None
        if page and page.request != fingerprint:
            raise invalid("the page token belongs to another query; continue with the same parameters, or start again")
        return page

    def _refreshed(self, table_request: TableRequest, request: QueryRequest) -> int | None:
        """The version that the refresh token pins."""
        if request.refresh_token is None:
            return None
        refresh = self.tokens.read("refresh", request.refresh_token, _Refresh)
        if (refresh.table, refresh.recipient) != (table_request.table.id, table_request.recipient.id):
            raise invalid("the refresh token belongs to another table or recipient; query the table again without it")
        return refresh.version


def _fingerprint(table_request: TableRequest, request: QueryRequest | ChangesRequest) -> str:
    """The same for all pages of a query."""
    if isinstance(request, ChangesRequest):
        return table_request.fingerprint("changes", msgspec.structs.replace(request, page_token=None, max_files=None))
    same_on_every_page = msgspec.structs.replace(
        request, page_token=None, max_files=None, include_refresh_token=None, refresh_token=None, idempotency_key=None
    )
    return table_request.fingerprint(same_on_every_page)


def _first_since(table: CachedTable, timestamp: int) -> int:
    """A time before the earliest readable version gives that version."""
    times = table.commit_times()
    earliest = times.readable_versions()[0]
    return earliest if timestamp <= times.of(earliest) else times.version_from(timestamp)


def _stream_range(table: CachedTable, request: QueryRequest) -> tuple[int, int]:
    assert request.starting_version is not None
    latest, start = table.latest_version(), request.starting_version
    end = latest if request.ending_version is None else request.ending_version
    if start > latest:
        raise invalid(f"startingVersion {start} is later than the latest version, {latest}")
    if end > latest:
        raise invalid(f"endingVersion {end} is later than the latest version, {latest}")
    return start, end


def _change_range(table: CachedTable, request: ChangesRequest) -> tuple[int, int]:
    latest = table.latest_version()
    if request.starting_version is not None:
        start = request.starting_version
    else:
        assert request.starting_timestamp is not None
        stamp = parse_timestamp(request.starting_timestamp, "startingTimestamp")
        start = table.commit_times().version_from(stamp)
    end = _change_end(table, latest, request)
    if start > latest:
        raise invalid(f"the start of the changes, version {start}, is later than the latest, {latest}")
    if end < start:
        raise invalid(f"the end of the changes, version {end}, is earlier than their start, version {start}")
    return start, end


def _change_end(table: CachedTable, latest: int, request: ChangesRequest) -> int:
    if request.ending_version is not None:
        return min(request.ending_version, latest)
    if request.ending_timestamp is None:
        return latest
    times = table.commit_times()
    stamp = parse_timestamp(request.ending_timestamp, "endingTimestamp")
    if latest in times.listing.commits:
        with suppress(CorruptTableError):  # without its time, only earlier versions can be found
            stamp = min(stamp, times.of(latest))
    return times.version_at(stamp)
