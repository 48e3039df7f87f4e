"""Paged lists of shares, schemas and tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from litestar import get

from lakeport.server.catalog import model
from lakeport.server.catalog.index import CatalogView
from lakeport.server.catalog.model import shown_places
from lakeport.server.http.asgi import Reply, json_reply, record_of
from lakeport.server.http.refusals import invalid
from lakeport.server.routes.parsing import HttpRequest, query_parameters, scope_of
from lakeport.server.services import Services, services_of
from lakeport.sharing import models

_MOST_RESULTS = 500
_MOST_BYTES = 4 << 20
"""Bytes of a page, which may therefore have fewer items than requested: clients limit response sizes."""

T = TypeVar("T")


@get("/shares", sync_to_thread=False)
def list_shares(request: HttpRequest) -> Reply:
    view, listing = _open(request, "listShares")
    return listing.reply(view.shares(), lambda share: share.name.lower(), _shares)


@get("/shares/{share:str}", sync_to_thread=False)
def get_share(request: HttpRequest) -> Reply:
    view, listing = _open(request, "getShare")
    return json_reply(models.ShareAnswer(share=_share(view.share(*listing.names))))


@get("/shares/{share:str}/schemas", sync_to_thread=False)
def list_schemas(request: HttpRequest) -> Reply:
    view, listing = _open(request, "listSchemas")
    owner = view.share(*listing.names).name
    return listing.reply(view.schemas(owner), str.lower, partial(_schemas, owner))


@get("/shares/{share:str}/schemas/{schema:str}/tables", sync_to_thread=False)
def list_tables(request: HttpRequest) -> Reply:
    view, listing = _open(request, "listTables")
    return listing.reply(view.tables(*listing.names), _table_key, partial(_tables, view.share(listing.names[0])))


@get("/shares/{share:str}/all-tables", sync_to_thread=False)
def list_all_tables(request: HttpRequest) -> Reply:
    view, listing = _open(request, "listAllTables")
    return listing.reply(view.all_tables(*listing.names), _table_key, partial(_tables, view.share(*listing.names)))


LISTING_ROUTES = (list_shares, get_share, list_schemas, list_tables, list_all_tables)


class _Position(msgspec.Struct, frozen=True, array_like=True):
    """The start of a page: the list, the recipient, and the key it comes after (None: from the beginning)."""

    listing: str
    recipient: str
    after: str | None


class _Listing:
    """A list that one recipient reads page by page; `names` are those in its path."""

    def __init__(
        self, services: Services, operation: str, names: Sequence[str], recipient: str, parameters: dict[str, str]
    ) -> None:
        self.names = names
        self._services, self._recipient = services, recipient
        self._name = "/".join([operation, *names]).lower()
        self._size = _parse_max_results(parameters.get("maxResults"))
        self._after = self._position(parameters.get("pageToken"))

    def reply(
        self,
        items: Sequence[T],
        key: Callable[[T], str],
        page: Callable[[Sequence[T], str | None], msgspec.Struct],
    ) -> Reply:
        """Make a page from its items and the token of the next one. `items` are sorted by `key`."""
        start = 0 if self._after is None else bisect_right(items, self._after, key=key)
        size = self._size
        while True:
            found = items[start : start + size]
            more = start + size < len(items)
            reply = json_reply(page(found, self._token(key(found[-1]) if found else self._after) if more else None))
            if len(reply.body) <= _MOST_BYTES or len(found) <= 1:
                return reply
            size = len(found) // 2

    def _position(self, token: str | None) -> str | None:
        if not token:
            return None
        position = self._services.tokens.read("list page", token, _Position)
        if (position.listing, position.recipient) != (self._name, self._recipient):
            raise invalid("the page token belongs to another list; start again without it")
        return position.after

    def _token(self, after: str | None) -> str:
        position = _Position(self._name, self._recipient, after)
        return self._services.tokens.sign(
            "list page", position, self._services.config.query_table_page_token_ttl_ms / 1000
        )


def _open(request: HttpRequest, operation: str) -> tuple[CatalogView, _Listing]:
    """The recipient's view of the catalog, and the requested list. Raises `SharingError`."""
    scope = scope_of(request)
    services, record = services_of(scope), record_of(scope)
    record.operation = operation
    view = services.view(scope)
    assert record.recipient is not None
    names = list(scope["path_params"].values())
    return view, _Listing(services, operation, names, record.recipient.id, query_parameters(scope))


def _parse_max_results(text: str | None) -> int:
    if text is None:
        return _MOST_RESULTS
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= _MOST_RESULTS):
        raise invalid(f"maxResults must be a number from 0 to {_MOST_RESULTS}, not {text[:100]!r}")
    return int(text)


def _table_key(table: model.Table) -> str:
    # Names cannot contain NUL, so this sorts by schema, then by table.
    return f"{table.schema}\0{table.name}".lower()


def _share(share: model.Share) -> models.Share:
    return models.Share(
        name=share.name,
        id=share.id,
        display_name=share.display_name,
        comment=share.comment,
        properties=share.properties,
    )


def _shares(shares: Sequence[model.Share], token: str | None) -> models.SharePage:
    return models.SharePage(items=[_share(share) for share in shares], next_page_token=token)


def _schemas(share: str, schemas: Sequence[str], token: str | None) -> models.SchemaPage:
    items = [models.Schema(name=schema, share=share) for schema in schemas]
    return models.SchemaPage(items=items, next_page_token=token)


def _tables(share: model.Share, tables: Sequence[model.Table], token: str | None) -> models.TablePage:
    return models.TablePage(items=[_table(share, table) for table in tables], next_page_token=token)


def _table(share: model.Share, table: model.Table) -> models.Table:
    return models.Table(
        name=table.name,
        schema=table.schema,
        share=share.name,
        share_id=share.id,
        id=table.id,
        access_modes=table.access_modes,
        **shown_places(table),
    )
