"""The pages of responses about tables: for parameters, for queries, and for asynchronous queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from lakeport.client.http.error_responses import invalid_answer
from lakeport.client.http.limits import PAGE_BYTES
from lakeport.client.rest.answers import Page, Pending
from lakeport.client.rest.session import Session, segment
from lakeport.errors import UnavailableError
from lakeport.kernel.definition import CATALOG_MANAGED, READER_FEATURES
from lakeport.sharing.capabilities import HEADER, Capabilities, format_capabilities
from lakeport.sharing.models import QueryRequest, QueryStatusRequest

FORMATS = ("delta", "parquet")

_CAPABILITIES = Capabilities(
    response_formats=FORMATS,
    # Catalog-managed tables cannot be read through a share: only the catalog knows their commits.
    reader_features=frozenset(map(str.lower, READER_FEATURES - CATALOG_MANAGED)),
    include_end_stream_action=True,
)
_FIRST_POLL_SECONDS = 0.25
_LONGEST_POLL_SECONDS = 10.0


def _headers(formats: tuple[str, ...], *, async_query: bool) -> dict[str, str]:
    capabilities = replace(_CAPABILITIES, response_formats=formats, async_query=async_query)
    return {HEADER: format_capabilities(capabilities)}


class ParameterPages:
    """The pages of a `GET` with parameters."""

    def __init__(
        self,
        session: Session,
        path: str,
        parameters: Mapping[str, str],
        about: str,
        formats: tuple[str, ...] = FORMATS,
        most_bytes: int = PAGE_BYTES,
    ) -> None:
        self._session, self._path, self._parameters, self._about = session, path, parameters, about
        self._most_bytes = most_bytes
        self._headers = _headers(formats, async_query=False)

    def page(self, token: str | None) -> Page:
        """The page for a token; without one, the first."""
        parameters = {**self._parameters, **({} if token is None else {"pageToken": token})}
        found = self._session.page(
            "GET",
            self._path,
            self._about,
            capabilities=self._headers,
            parameters=parameters,
            most_bytes=self._most_bytes,
        )
        if isinstance(found, Pending):
            raise invalid_answer(self._session.host, self._about, "it reports a pending query, but none was sent")
        return found


class QueryPages:
    """The pages of one query on the table below `path`."""

    def __init__(
        self,
        session: Session,
        path: str,
        request: QueryRequest,
        about: str,
        pending_seconds: float,
        formats: tuple[str, ...] = FORMATS,
    ) -> None:
        self._session, self._path, self._request, self._about = session, path, request, about
        self._pending_seconds = pending_seconds
        self._headers = _headers(formats, async_query=True)
        self._query_id: str | None = None

    def page(self, token: str | None) -> Page:
        """The page for a token; without one, the first."""
        found = self._ask(token) if self._query_id is None else self._poll(self._query_id, token)
        return found if isinstance(found, Page) else self._wait(found, token)

    def _wait(self, pending: Pending, token: str | None) -> Page:
        clock, sleep = self._session.http.timing.clock, self._session.http.timing.sleep
        ends, seconds = clock() + self._pending_seconds, _FIRST_POLL_SECONDS
        while clock() + seconds <= ends:
            sleep(seconds)
            self._query_id = pending.query_id
            found = self._poll(pending.query_id, token)
            if isinstance(found, Page):
                return found
            pending, seconds = found, min(2 * seconds, _LONGEST_POLL_SECONDS)
        raise self._never_ready()

    def _ask(self, token: str | None) -> Page | Pending:
        request = self._request
        if token is not None:
            # A refresh token belongs to the first page only.
            request = msgspec.structs.replace(request, page_token=token, include_refresh_token=None, refresh_token=None)
        return self._post(f"{self._path}/query", request)

    def _poll(self, query_id: str, token: str | None) -> Page | Pending:
        status = QueryStatusRequest(max_files=self._request.max_files, page_token=token or self._request.page_token)
        return self._post(f"{self._path}/queries/{segment(query_id)}", status)

    def _post(self, path: str, body: QueryRequest | QueryStatusRequest) -> Page | Pending:
        return self._session.page("POST", path, self._about, capabilities=self._headers, body=body)

    def _never_ready(self) -> UnavailableError:
        return UnavailableError(
            f"{self._session.host} did not answer a query about {self._about} within {self._pending_seconds:g} s; "
            "request less, or wait longer",
            status=200,
            code="QUERY_PENDING",
        )
