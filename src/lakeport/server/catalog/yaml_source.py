"""A catalog in a YAML file: the reference server's `shares` and `authorization`, plus `recipients`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from lakeport.errors import CatalogError, SharingError
from lakeport.server.catalog.index import EVERYTHING, token_digest
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient, Share, Table, normalize_location
from lakeport.server.catalog.rules import check_content, default_id
from lakeport.server.catalog.yaml_file import convert, empty_keys, read_yaml, unknown_keys
from lakeport.sharing.timestamps import parse_timestamp

_log = logging.getLogger(__name__)
_RESTRICTIONS = {
    "recipients[].ipAllowList": "allow all addresses",
    "recipients[].tokens[].expires": "make the token valid forever",
    "shares[].schemas[].tables[].startVersion": "share the table from its first version",
}
"""Keys that restrict access, and the effect of leaving them out, which nobody intends by an empty value."""


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
    """The keys of a catalog."""

    shares: tuple[ShareSettings, ...] = ()
    authorization: AuthorizationSettings | None = None
    recipients: tuple[RecipientSettings, ...] = ()
    anonymous: bool = False
    """Whether anyone may read everything without a token."""


class YamlSource:
    """The catalog in the file at `path`. Editors may write to it or replace it.

    `kind` defines all valid keys; a changed file is searched for others."""

    def __init__(self, path: str | Path, kind: type[Settings] = CatalogSettings) -> None:
        self._path, self._kind = Path(path), kind
        self._seen: object = None
        """The state of the file at the last poll."""
        self._loaded = self._had_recipients = self._had_authorization = False
        self._unknown: set[str] = set()

    def generation(self) -> object:
        """None if the file has changed since the last poll: it may be half written."""
        before, self._seen = self._seen, self._state()
        return self._seen if before in (None, self._seen) else None

    def _state(self) -> object:
        status = self._path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def load(self) -> CatalogContent:
        try:
            return self._load(read_yaml(self._path))
        except CatalogError as error:
            prefix = "" if str(error).startswith(str(self._path)) else f"{self._path}: "
            raise CatalogError(f"{prefix}{error}") from error
        except (RecursionError, ValueError) as error:  # invalid content, rather than a missing file
            raise CatalogError(f"{self._path} is not a catalog ({type(error).__name__})") from error

    def _load(self, document: Mapping[str, Any]) -> CatalogContent:
        if self._seen not in (None, self._state()):
            raise CatalogError("the file changed while it was read")
        unknown = list(unknown_keys(document, self._kind))
        settings = convert(document, CatalogSettings, self._path)
        has_recipients = document.get("recipients") is not None
        _check_restrictions(document)
        self._check_kept(settings, has_recipients, unknown)
        self._check_access(settings, "recipients" in document, unknown)
        content = _content(settings)
        if content.anonymous:
            _log.warning("%s has anonymous: true: everyone may read every share without a token", self._path)
        self._loaded, self._unknown = True, set(map(_anywhere, unknown))
        self._had_recipients |= "recipients" in document
        self._had_authorization = settings.authorization is not None
        return content

    def _check_kept(self, settings: CatalogSettings, has_recipients: bool, unknown: Sequence[str]) -> None:
        """Reject a changed file that opens or removes access through a misspelt or missing key."""
        hint = f" (unknown keys: {', '.join(unknown)})" if unknown else ""
        if self._had_recipients and not has_recipients:
            raise CatalogError(f"recipients is missing{hint}; to remove all of them, write recipients: []")
        if self._had_authorization and settings.authorization is None:
            raise CatalogError(f"authorization is missing{hint}; restart the server if intended")
        new = [key for key in unknown if self._loaded and _anywhere(key) not in self._unknown]
        if new:  # `load_config` reports those present at startup
            raise CatalogError(f"unknown key {new[0]}: correct or remove it")

    def _check_access(self, settings: CatalogSettings, has_recipients: bool, unknown: Sequence[str]) -> None:
        hint = f" (unknown keys: {', '.join(unknown)})" if unknown else ""
        if settings.anonymous and (settings.authorization is not None or has_recipients):
            raise CatalogError("anonymous: true conflicts with authorization and recipients: keep only one of the two")
        if not (settings.anonymous or settings.authorization is not None or has_recipients):
            raise CatalogError(
                f"nobody may read the shares{hint}: add recipients or authorization; to share everything with"
                " everyone, add anonymous: true"
            )

    def signing_key(self) -> bytes | None:
        return None

    def close(self) -> None:
        """The file is only open while it is read."""


def _anywhere(key: str) -> str:
    """A key without list indexes, which change as entries come and go."""
    return re.sub(r"\[\d+\]", "[]", key)


def _check_restrictions(document: Mapping[str, Any]) -> None:
    for key in empty_keys(document):
        absent = _RESTRICTIONS.get(_anywhere(key).removesuffix("[]"))
        if absent is not None:
            raise CatalogError(f"{key} is empty: set a value, or remove it to {absent}")


def _content(settings: CatalogSettings) -> CatalogContent:
    content = CatalogContent(
        shares=tuple(_share(share) for share in settings.shares),
        schemas=tuple((share.name, schema.name) for share in settings.shares for schema in share.schemas),
        tables=tuple(_tables(settings.shares)),
        recipients=tuple(_recipients(settings)),
        anonymous=settings.anonymous,
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
        location=normalize_location(table.location),
        history_shared=table.history_shared,
        start_version=table.start_version,
        auxiliary_locations=tuple(map(normalize_location, table.auxiliary_locations)),
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
