"""A sharing server, as recipients see it: every API of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, Self, TypeVar

import msgspec

from lakeport.client.http.limits import LIST_ITEMS, METADATA_BYTES, PAGE_BYTES, PAGE_ITEMS, too_large
from lakeport.client.http.pool import HttpPool
from lakeport.client.rest.answers import PageCount, TableAnswer, parse_version
from lakeport.client.rest.pages import FORMATS, ParameterPages, QueryPages
from lakeport.client.rest.session import Session, segment, table_path
from lakeport.errors import SharingError
from lakeport.sharing import models
from lakeport.sharing.models import ChangesRequest, CredentialsRequest, QueryRequest
from lakeport.sharing.names import TableName
from lakeport.sharing.profile import Profile

ListPage = TypeVar("ListPage", models.SharePage, models.SchemaPage, models.TablePage)


class SharingServer:
    """A profile's server. All methods raise `SharingError` or its subclasses `AuthenticationError`,
    `PermissionDeniedError` and `UnavailableError`. Thread-safe.

    `pending_seconds` limits how long an asynchronous query may take; `formats` are the response formats to request
    about tables, where the server has a choice."""

    def __init__(
        self,
        profile: Profile,
        http: HttpPool | None = None,
        *,
        pending_seconds: float = 3600.0,
        formats: tuple[str, ...] = FORMATS,
    ) -> None:
        self.profile = profile
        self.http = http or HttpPool()
        self._session = Session(profile, self.http)
        self._pending_seconds, self.formats = pending_seconds, formats

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its arguments; a process opens one server for equal arguments."""
        return _open_once, (self.profile, self.http, self._pending_seconds, self.formats)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        self.http.close()

    @property
    def host(self) -> str:
        """For messages."""
        return self._session.host

    def shares(self) -> list[models.Share]:
        pages = self._pages("shares", models.SharePage, "the shares")
        return [share for page in pages for share in page.items]

    def share(self, name: str) -> models.Share:
        return self._session.json("GET", f"shares/{segment(name)}", models.ShareAnswer, f"the share {name}").share

    def schemas(self, share: str) -> list[models.Schema]:
        pages = self._pages(f"shares/{segment(share)}/schemas", models.SchemaPage, f"the share {share}")
        return [schema for page in pages for schema in page.items]

    def tables(self, share: str, schema: str) -> list[models.Table]:
        path = f"shares/{segment(share)}/schemas/{segment(schema)}/tables"
        pages = self._pages(path, models.TablePage, f"the schema {share}.{schema}")
        return [table for page in pages for table in page.items]

    def all_tables(self, share: str) -> list[models.Table]:
        pages = self._pages(f"shares/{segment(share)}/all-tables", models.TablePage, f"the share {share}")
        try:
            return [table for page in pages for table in page.items]
        except SharingError as error:
            # Old servers lack this route; for an unknown share, listing its schemas fails too.
            if error.status not in (404, 405):
                raise
        return [table for schema in self.schemas(share) for table in self.tables(share, schema.name)]

    def version(self, table: TableName, starting_timestamp: str | None = None) -> int:
        """The latest version, or the first one at or after a time."""
        path, about = table_path(table), _about(table)
        parameters = {} if starting_timestamp is None else {"startingTimestamp": starting_timestamp}
        read = partial(parse_version, about=about)
        try:
            return self._session.receive("GET", f"{path}/version", read, about, parameters=parameters)
        except SharingError as error:
            # Servers from before 2023 lack this route and do not support timestamps.
            if starting_timestamp is not None or not _is_unknown_route(error):
                raise
        return self._session.receive("HEAD", path, read, about)

    def metadata(self, table: TableName, *, version: int | None = None, timestamp: str | None = None) -> TableAnswer:
        """The protocol and metadata of the latest version, or of the given one."""
        given = {"version": version, "timestamp": timestamp}
        parameters = {name: str(value) for name, value in given.items() if value is not None}
        return self._answer(table, "metadata", parameters, METADATA_BYTES)

    def query(self, table: TableName, request: QueryRequest) -> TableAnswer:
        """The files of a version or a version range, starting at the page that the request names."""
        pages = QueryPages(
            self._session, table_path(table), request, _about(table), self._pending_seconds, self.formats
        )
        return TableAnswer(pages.page(None), pages.page)

    def changes(self, table: TableName, request: ChangesRequest) -> TableAnswer:
        """The change files of a version range, starting at the page that the request names."""
        fields: dict[str, Any] = msgspec.to_builtins(request)
        return self._answer(table, "changes", {name: _format_parameter(value) for name, value in fields.items()})

    def credentials(self, table: TableName, location: str | None = None) -> models.Credentials:
        """Temporary credentials for a table's directory, or for another of its locations."""
        path = f"{table_path(table)}/temporary-table-credentials"
        request = CredentialsRequest(location=location)
        return self._session.json("POST", path, models.CredentialsAnswer, _about(table), body=request).credentials

    def _answer(
        self, table: TableName, what: str, parameters: dict[str, str], most_bytes: int = PAGE_BYTES
    ) -> TableAnswer:
        path = f"{table_path(table)}/{what}"
        pages = ParameterPages(self._session, path, parameters, _about(table), self.formats, most_bytes)
        return TableAnswer(pages.page(None), pages.page)

    def _pages(self, path: str, kind: type[ListPage], about: str) -> Iterator[ListPage]:
        """All pages of a list. Raises `SharingError` if they repeat or seem endless."""
        parameters = {"maxResults": str(PAGE_ITEMS)}
        count, items = PageCount(self.host, about), 0
        while True:
            page = self._session.json("GET", path, kind, about, parameters=parameters)
            items += len(page.items)
            count.add(len(page.items), page.next_page_token)
            if items > LIST_ITEMS:
                raise too_large(self.host, about, f"lists more than {LIST_ITEMS:,} names")
            yield page
            if not page.next_page_token:
                return
            parameters["pageToken"] = page.next_page_token


def _about(table: TableName) -> str:
    return f"the table {table}"


def _format_parameter(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_unknown_route(error: SharingError) -> bool:
    """Whether the server lacks the route. For an unknown table, it would send the protocol's error."""
    return error.status in (404, 405) and error.code == f"HTTP_{error.status}"


@cache
def _open_once(profile: Profile, http: HttpPool, pending_seconds: float, formats: tuple[str, ...]) -> SharingServer:
    return SharingServer(profile, http, pending_seconds=pending_seconds, formats=formats)
