"""A catalog in a YAML file: the reference server's `shares` and `authorization`, and `recipients` beside them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from lakeport.errors import CatalogError, SharingError
from lakeport.server.catalog.index import EVERYTHING, token_digest
from lakeport.server.catalog.locations import parse_location
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient, Share, Table
from lakeport.server.catalog.rules import check_content, default_id
from lakeport.server.yaml_file import convert, read_yaml
from lakeport.sharing.timestamps import parse_timestamp

_LOG = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A mapping in the file; its keys are the fields in camel case."""

    def __repr__(self) -> str:  # values may be secrets
        return f"<{type(self).__name__}>"


class TableSettings(Settings, frozen=True):
    name: str
    location: str
    id: str = ""
    history_shared: bool = False
    start_version: int = 0
    auxiliary_locations: tuple[str, ...] = ()
    access_modes: tuple[Literal["url", "dir"], ...] = ("url",)
    storage: dict[str, str] = msgspec.field(default_factory=dict)


class SchemaSettings(Settings, frozen=True):
    name: str
    tables: tuple[TableSettings, ...] = ()


class ShareSettings(Settings, frozen=True):
    name: str
    schemas: tuple[SchemaSettings, ...] = ()
    id: str = ""
    display_name: str | None = None
    comment: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)


class TokenSettings(Settings, frozen=True):
    sha256: str
    expires: str | None = None


class RecipientSettings(Settings, frozen=True):
    name: str
    id: str = ""
    bearer_token: str | None = None
    tokens: tuple[TokenSettings, ...] = ()
    ip_allow_list: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()


class AuthorizationSettings(Settings, frozen=True):
    bearer_token: str


class CatalogSettings(Settings, frozen=True):
    """The keys that make a catalog."""

    shares: tuple[ShareSettings, ...] = ()
    authorization: AuthorizationSettings | None = None
    recipients: tuple[RecipientSettings, ...] = ()


class YamlSource:
    """The catalog in the file at `path`. Editors may write to it or put another file in its place."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def generation(self) -> object:
        status = self._path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def load(self) -> CatalogContent:
        document = read_yaml(self._path)
        settings = convert(document, CatalogSettings, self._path)
        # Who takes the last recipient out of the list does not mean everybody.
        anonymous = settings.authorization is None and "recipients" not in document
        try:
            content = _content(settings, anonymous)
        except CatalogError as error:
            raise CatalogError(f"{self._path}: {error}") from error
        if content.anonymous:
            _LOG.warning("%s asks for no token: everybody may read every share", self._path)
        return content

    def signing_key(self) -> bytes | None:
        return None


def _content(settings: CatalogSettings, anonymous: bool) -> CatalogContent:
    content = CatalogContent(
        shares=tuple(_share(share) for share in settings.shares),
        schemas=tuple((share.name, schema.name) for share in settings.shares for schema in share.schemas),
        tables=tuple(_tables(settings.shares)),
        recipients=tuple(_recipients(settings)),
        anonymous=anonymous,
    )
    check_content(content)
    return content


def _share(share: ShareSettings) -> Share:
    return Share(
        id=share.id or default_id(share.name),
        name=share.name,
        display_name=share.display_name,
        comment=share.comment,
        properties=share.properties,
    )


def _tables(shares: Sequence[ShareSettings]) -> Iterator[Table]:
    for share in shares:
        for schema in share.schemas:
            for table in schema.tables:
                yield _table(share.name, schema.name, table)


def _table(share: str, schema: str, table: TableSettings) -> Table:
    return Table(
        id=table.id or default_id(share, schema, table.name),
        share=share,
        schema=schema,
        name=table.name,
        location=parse_location(table.location),
        history_shared=table.history_shared,
        start_version=table.start_version,
        auxiliary_locations=tuple(map(parse_location, table.auxiliary_locations)),
        access_modes=table.access_modes,
        storage=table.storage,
    )


def _recipients(settings: CatalogSettings) -> Iterator[Recipient]:
    if settings.authorization is not None:
        token = _token("bearerToken", settings.authorization.bearer_token)
        yield Recipient(id="bearerToken", name="bearerToken", tokens=(token,), grants=(EVERYTHING,))
    for recipient in settings.recipients:
        plain = () if recipient.bearer_token is None else (_token(recipient.name, recipient.bearer_token),)
        yield Recipient(
            id=recipient.id or default_id(recipient.name),
            name=recipient.name,
            tokens=(*plain, *(_digest(recipient.name, token) for token in recipient.tokens)),
            ip_allow_list=recipient.ip_allow_list,
            grants=recipient.grants,
        )


def _token(name: str, token: str) -> BearerToken:
    if not token.strip():
        raise CatalogError(f"the bearer token of {name!r} is empty")
    return BearerToken(digest=token_digest(token))


def _digest(name: str, token: TokenSettings) -> BearerToken:
    expires = None if token.expires is None else _milliseconds(name, token.expires)
    return BearerToken(digest=token.sha256.lower(), expires=expires)


def _milliseconds(name: str, text: str) -> int:
    try:
        return parse_timestamp(text, f"the expiry of a token of recipient {name!r}")
    except SharingError as error:
        raise CatalogError(str(error)) from None
