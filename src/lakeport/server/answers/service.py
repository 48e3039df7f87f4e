"""Requests on a table: its version, metadata, files and changes.

Everything here blocks on storage, runs in worker threads, and raises `LakeportError`s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from lakeport.errors import CorruptTableError
from lakeport.server.access.tokens import TokenSigner
from lakeport.server.answers.answer import Answer, FileLines, wants_end
from lakeport.server.answers.caller import Caller, invalid
from lakeport.server.answers.formats import choose_format, needs_of_range, needs_of_snapshot, protocol_of_range
from lakeport.server.answers.lines import LineWriter, Moment, line_writer
from lakeport.server.answers.opened_tables import CachedTable, SharedSnapshot, TableCache
from lakeport.server.answers.range import Cursor, RangeFiles, RangeOptions, SharedRange
from lakeport.server.answers.snapshot import Position, SnapshotFiles, read_hints
from lakeport.server.signing import Signers
from lakeport.sharing.models import ChangesRequest, QueryRequest
from lakeport.sharing.timestamps import parse_timestamp


@dataclass(frozen=True, kw_only=True)
class QueryRules:
    """Settings of queries."""

    page_size_limit: int = 10_000
    page_token_seconds: float = 259_200
    refresh_token_seconds: float = 3_600
    use_sql_hints: bool = True
    use_json_hints: bool = True


class _Page(msgspec.Struct, frozen=True, array_like=True):
    request: str
    """The fingerprint of the query."""


class _SnapshotPage(_Page, frozen=True, array_like=True):
    version: int
    position: Position


class _RangePage(_Page, frozen=True, array_like=True):
    start: int
    end: int
    cursor: Cursor


class _Refresh(msgspec.Struct, frozen=True, array_like=True):
    table: str
    recipient: str
    version: int


P = TypeVar("P", bound=_Page)


@dataclass(frozen=True)
class TableService:
    """Answers requests on tables. Thread-safe."""

    cache: TableCache
    signers: Signers
    tokens: TokenSigner
    rules: QueryRules = QueryRules()
    now: Callable[[], float] = time.time

    def version(self, caller: Caller, starting_timestamp: str | None = None) -> int:
        """The latest version; with a timestamp, the first version at or after it."""
        caller.check_history(starting_timestamp)
        table = self.cache.table(caller.table)
        if starting_timestamp is None:
            version = table.latest().version
        else:
            version = _first_since(table, parse_timestamp(starting_timestamp, "startingTimestamp"))
        caller.check_start(version)
        return version

    def metadata(self, caller: Caller, version: int | None = None, timestamp: str | None = None) -> Answer:
        """Two lines, the protocol and the metadata. Clients accept no others, so no `EndStreamAction` is promised."""
        shared = self._snapshot(caller, version, timestamp)
        answer, writer = self._begin(caller, shared)
        answer.end_stream_action = False
        answer.chunks = iter([_head(writer, shared, None)])
        return answer

    def query(self, caller: Caller, request: QueryRequest) -> Answer:
        """The files of a snapshot, or with `startingVersion` those that later commits added and removed."""
        given = [request.version, request.timestamp, request.starting_version]
        if sum(value is not None for value in given) > 1:
            raise invalid("only one of version, timestamp and startingVersion may be given")
        caller.check_history(*given)
        if request.starting_version is not None:
            return self._stream(caller, request)
        return self._files(caller, request)

    def changes(self, caller: Caller, request: ChangesRequest) -> Answer:
        """The change data feed of a range of versions."""
        if not caller.table.history_shared:
            raise invalid(
                f"the changes of the table {caller.table_name} are not shared: its history is not; ask its provider "
                "for historyShared"
            )
        fingerprint = caller.fingerprint("changes", msgspec.structs.replace(request, page_token=None, max_files=None))
        page = self._page(request.page_token, fingerprint, _RangePage)
        table = self.cache.table(caller.table)
        start, end = (page.start, page.end) if page else self._change_range(table, request)
        caller.check_start(start)
        commits = _commits(table, start, end)
        commits.check_feed()
        options = RangeOptions(
            feed=True, metadata=request.include_historical_metadata, protocol=request.include_historical_protocol
        )
        return self._range(caller, commits, options, request, page, fingerprint)

    def _files(self, caller: Caller, request: QueryRequest) -> Answer:
        fingerprint = caller.fingerprint(_same_on_every_page(request))
        page = self._page(request.page_token, fingerprint, _SnapshotPage)
        if page:
            caller.check_start(page.version)
            shared = self.cache.table(caller.table).at_version(page.version)
        else:
            shared = self._snapshot(caller, request.version, request.timestamp, self._refreshed(caller, request))
        by_version = request.version is not None or request.timestamp is not None
        moment = Moment(shared.version, shared.delta.timestamp) if by_version else Moment()
        answer, writer = self._begin(
            caller, shared, request.include_refresh_token or None, request.max_files, request.page_token
        )
        lines = self._lines(caller, answer, writer)
        hints = read_hints(request, shared.delta, use_sql=self.rules.use_sql_hints, use_json=self.rules.use_json_hints)
        files = SnapshotFiles(shared, hints, lines, moment)
        refresh = self._refresh_token(caller, shared) if request.include_refresh_token else None
        head = _head(writer, shared, moment.version)

        def chunks() -> Iterator[bytes]:
            yield head
            following = None
            if request.max_files is None and not page:
                yield from files.all()
            else:
                some, following = files.page(page.position if page else Position(), self._page_size(request.max_files))
                yield from some
            if answer.end_stream_action:
                more = _SnapshotPage(fingerprint, shared.version, following) if following else None
                yield lines.end(next_page_token=self._page_token(more), refresh_token=refresh)

        answer.chunks = chunks()
        answer.details |= {
            "predicateHints": request.predicate_hints,
            "jsonPredicateHints": request.json_predicate_hints,
            "limitHint": request.limit_hint,
        }
        return answer

    def _stream(self, caller: Caller, request: QueryRequest) -> Answer:
        assert request.starting_version is not None
        fingerprint = caller.fingerprint(_same_on_every_page(request))
        page = self._page(request.page_token, fingerprint, _RangePage)
        table = self.cache.table(caller.table)
        latest = table.latest_version()
        start = request.starting_version
        end = page.end if page else latest if request.ending_version is None else request.ending_version
        caller.check_start(start)
        if start > latest:
            raise invalid(f"startingVersion {start} is later than the latest version, {latest}")
        if end > latest:
            raise invalid(f"endingVersion {end} is later than the latest version, {latest}")
        if end < start:
            raise invalid(f"endingVersion {end} is earlier than startingVersion {start}")
        commits = _commits(table, start, end)
        options = RangeOptions(feed=False, metadata=True, protocol=bool(request.include_historical_protocol))
        return self._range(caller, commits, options, request, page, fingerprint)

    def _range(
        self,
        caller: Caller,
        commits: SharedRange,
        options: RangeOptions,
        request: QueryRequest | ChangesRequest,
        page: _RangePage | None,
        fingerprint: str,
    ) -> Answer:
        needs = needs_of_range(commits.all_states(), commits.root, lambda: commits.has_vectors(options.feed))
        response_format = choose_format(needs, caller.capabilities, caller.table_name)
        writer = line_writer(response_format, caller.table, caller.capabilities, caller.file_id_hash)
        answer = Answer(
            version=commits.start,
            response_format=response_format,
            end_stream_action=wants_end(caller.capabilities, request.max_files, request.page_token),
            details={"startingVersion": commits.start, "endingVersion": commits.end},
        )
        lines = self._lines(caller, answer, writer)
        files = RangeFiles(commits, options, writer, lines)
        paged = request.max_files is not None or page is not None
        # Rows are read under one schema: the first if later ones are included, otherwise the last.
        metadata = (commits.first if options.metadata else commits.last).metadata
        protocol = commits.first.protocol if options.protocol else protocol_of_range(commits.all_states(), needs)
        head = writer.protocol(protocol, commits.start if options.protocol else None)
        head += writer.metadata(metadata, commits.start)

        def chunks() -> Iterator[bytes]:
            yield head
            cursor = page.cursor if page else Cursor(commits.start)
            yield from files.chunks(cursor, self._page_size(request.max_files) if paged else None)
            if answer.end_stream_action:
                more = _RangePage(fingerprint, commits.start, commits.end, files.next) if files.next else None
                yield lines.end(next_page_token=self._page_token(more))

        answer.chunks = chunks()
        return answer

    def _lines(self, caller: Caller, answer: Answer, writer: LineWriter) -> FileLines:
        signer = self.signers.for_table(caller.table, caller.public_url, caller.recipient.id)
        return FileLines(answer, writer, signer, self._now_ms)

    def _begin(self, caller: Caller, shared: SharedSnapshot, *needs_end: object) -> tuple[Answer, LineWriter]:
        needs = needs_of_snapshot(shared)
        response_format = choose_format(needs, caller.capabilities, caller.table_name)
        writer = line_writer(response_format, caller.table, caller.capabilities, caller.file_id_hash)
        answer = Answer(
            version=shared.version,
            response_format=response_format,
            end_stream_action=wants_end(caller.capabilities, *needs_end),
            details={"version": shared.version},
        )
        return answer, writer

    def _snapshot(
        self, caller: Caller, version: int | None, timestamp: str | None, pinned: int | None = None
    ) -> SharedSnapshot:
        caller.check_history(version, timestamp)
        table = self.cache.table(caller.table)
        if version is not None and timestamp is not None:
            raise invalid("only one of version and timestamp may be given")
        if timestamp is not None:
            version = table.commit_times().version_at(parse_timestamp(timestamp, "timestamp"))
        wanted = version if version is not None else pinned
        shared = table.latest() if wanted is None else table.at_version(wanted)
        caller.check_start(shared.version)
        return shared

    def _change_range(self, table: CachedTable, request: ChangesRequest) -> tuple[int, int]:
        latest = table.latest_version()
        if request.starting_version is not None:
            start = request.starting_version
        else:
            assert request.starting_timestamp is not None
            stamp = parse_timestamp(request.starting_timestamp, "startingTimestamp")
            start = table.commit_times().version_from(stamp)
        end = self._change_end(table, latest, request)
        if start > latest:
            raise invalid(f"the start of the changes, version {start}, is later than the latest, {latest}")
        if end < start:
            raise invalid(f"the end of the changes, version {end}, is earlier than their start, version {start}")
        return start, end

    def _change_end(self, table: CachedTable, latest: int, request: ChangesRequest) -> int:
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

    def _page(self, token: str | None, fingerprint: str, kind: type[P]) -> P | None:
        page = self.tokens.read("page", token, kind) if token else None
        if page and page.request != fingerprint:
            raise invalid("the page token belongs to another query; go on with the same parameters, or start again")
        return page

    def _page_token(self, page: _Page | None) -> str | None:
        return None if page is None else self.tokens.sign("page", page, self.rules.page_token_seconds)

    def _refreshed(self, caller: Caller, request: QueryRequest) -> int | None:
        """The version that the refresh token pins."""
        if request.refresh_token is None:
            return None
        refresh = self.tokens.read("refresh", request.refresh_token, _Refresh)
        if (refresh.table, refresh.recipient) != (caller.table.id, caller.recipient.id):
            raise invalid("the refresh token belongs to another table or recipient; query the table again without it")
        return refresh.version

    def _refresh_token(self, caller: Caller, shared: SharedSnapshot) -> str:
        content = _Refresh(caller.table.id, caller.recipient.id, shared.version)
        return self.tokens.sign("refresh", content, self.rules.refresh_token_seconds)

    def _page_size(self, max_files: int | None) -> int:
        return min(max_files or self.rules.page_size_limit, self.rules.page_size_limit)

    def _now_ms(self) -> int:
        return int(self.now() * 1000)


def _head(writer: LineWriter, shared: SharedSnapshot, version: int | None) -> bytes:
    delta = shared.delta
    return writer.protocol(delta.protocol) + writer.metadata(delta.metadata, version, shared.totals)


def _commits(table: CachedTable, start: int, end: int) -> SharedRange:
    """The commits of a range, cached with its last version for later pages."""
    last = table.at_version(end)
    return last.kept(start, lambda: SharedRange(table.at_version(start).delta, last.delta))


def _same_on_every_page(request: QueryRequest) -> QueryRequest:
    return msgspec.structs.replace(
        request, page_token=None, max_files=None, include_refresh_token=None, refresh_token=None, idempotency_key=None
    )


def _first_since(table: CachedTable, timestamp: int) -> int:
    """A time before the earliest readable version gives that version."""
    times = table.commit_times()
    earliest = times.readable_versions()[0]
    return earliest if timestamp <= times.of(earliest) else times.version_from(timestamp)
