"""Rules for every catalog, wherever it is stored."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Iterable

from lakeport.errors import CatalogError
from lakeport.server.catalog.index import EVERYTHING
from lakeport.server.catalog.model import CatalogContent, Recipient, Share, Table
from lakeport.sharing.names import Kind, check_name

_NAMESPACE = uuid.UUID("5b1c6a0e-3f0e-5d0c-9d6e-6a4f2c1f7e52")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ACCESS_MODES = {"url", "dir"}
# Section "List Shares": clients might truncate longer names.
_LONGEST_NAME, _LONGEST_COMMENT = 255, 65536
_MOST_PROPERTIES, _LONGEST_KEY, _LONGEST_VALUE = 50, 255, 1000


def default_id(*names: str) -> str:
    """The default id of a share or a table; deterministic in its names."""
    return str(uuid.uuid5(_NAMESPACE, ".".join(names).lower()))


def check_content(content: CatalogContent) -> None:
    """Raises `CatalogError` for the first violation."""
    for share in content.shares:
        check_share(share)
    for _, schema in content.schemas:
        check_object_name("schema", schema)
    for table in content.tables:
        check_table(table)
    for recipient in content.recipients:
        check_recipient(recipient)
    schemas = [f"{share}.{schema}" for share, schema in content.schemas]
    tables = [f"{table.share}.{table.schema}.{table.name}" for table in content.tables]
    _check_unique("share", (share.name for share in content.shares))
    _check_unique("schema", schemas)
    _check_unique("table", tables)
    _check_unique("recipient", (recipient.name for recipient in content.recipients))
    # A share's name may contain periods, so a grant must not be ambiguous.
    _check_unique("share, schema or table", [*(share.name for share in content.shares), *schemas, *tables])
    _check_ids("share", ((share.id, share.name) for share in content.shares))
    _check_ids("table", ((table.id, name) for table, name in zip(content.tables, tables, strict=True)))
    _check_ids("recipient", ((recipient.id, recipient.name) for recipient in content.recipients))
    _check_tokens(content.recipients)
    names = {EVERYTHING, *(name.lower() for name in (*(s.name for s in content.shares), *schemas, *tables))}
    for recipient in content.recipients:
        _check_grants(recipient, names)


def check_object_name(kind: Kind, name: str) -> None:
    """Raises `CatalogError` for a name that the protocol does not allow."""
    try:
        check_name(kind, name)
    except ValueError as error:
        raise CatalogError(str(error)) from None


def check_share(share: Share) -> None:
    check_object_name("share", share.name)
    _check_length(f"the display name of share {share.name!r}", share.display_name or "", _LONGEST_NAME)
    _check_length(f"the comment of share {share.name!r}", share.comment or "", _LONGEST_COMMENT)
    if len(share.properties) > _MOST_PROPERTIES:
        raise CatalogError(f"share {share.name!r} has more than {_MOST_PROPERTIES} properties")
    for key, value in share.properties.items():
        _check_length(f"the name of property {key[:50]!r} of share {share.name!r}", key, _LONGEST_KEY)
        _check_length(f"property {key!r} of share {share.name!r}", value, _LONGEST_VALUE)


def check_table(table: Table) -> None:
    check_object_name("table", table.name)
    if table.start_version < 0:
        raise CatalogError(f"the start version of table {table.name!r} is negative: versions start at 0")
    if not table.access_modes or not _ACCESS_MODES.issuperset(table.access_modes):
        raise CatalogError(f"the access modes of table {table.name!r} must be url, dir or both")


def check_recipient(recipient: Recipient) -> None:
    name = recipient.name
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise CatalogError(f"a recipient name must have 1 to {_LONGEST_NAME} printable characters, not {name[:300]!r}")
    for token in recipient.tokens:
        if not _DIGEST.fullmatch(token.digest):
            raise CatalogError(
                f"a token of recipient {name!r} must be stored as a SHA-256 digest of 64 hexadecimal digits"
            )
    for network in recipient.ip_allow_list:
        check_network(network, f"the allow list of recipient {name!r}")


def check_network(text: str, place: str) -> None:
    """Raises `CatalogError` unless the text is an address or a network; `place` says where it is configured."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise CatalogError(f"{place}: {text!r} is neither an address nor a network like 10.0.0.0/8") from None


def _check_length(what: str, text: str, longest: int) -> None:
    if len(text) > longest:
        raise CatalogError(f"{what} is longer than {longest} characters")


def _check_unique(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise CatalogError(f"there is more than one {kind} called {name!r}; names are case-insensitive")
        seen.add(name.lower())


def _check_ids(kind: str, ids: Iterable[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for id_, name in ids:
        if id_ in seen:
            raise CatalogError(f"{kind} {name!r} has the same id as {seen[id_]!r}: {id_}")
        seen[id_] = name


def _check_tokens(recipients: Iterable[Recipient]) -> None:
    owners: dict[str, str] = {}
    for recipient in recipients:
        for token in recipient.tokens:
            if token.digest in owners:
                raise CatalogError(
                    f"a token of recipient {recipient.name!r} is used twice: {owners[token.digest]!r} has it already"
                )
            owners[token.digest] = recipient.name


def _check_grants(recipient: Recipient, names: set[str]) -> None:
    for grant in recipient.grants:
        if grant.lower() not in names:
            raise CatalogError(
                f"recipient {recipient.name!r} is granted {grant!r}, but there is no such share, schema or table"
            )
