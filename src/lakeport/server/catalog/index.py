"""The catalog, indexed for authentication and listing.

A `Catalog` is immutable; a change makes a new one. Recipients see only what they were granted.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from lakeport.errors import SharingError
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient, Share, Table

EVERYTHING = "*"
"""Grants all shares, including future ones."""

_ANONYMOUS = Recipient(id="anonymous", name="anonymous", grants=(EVERYTHING,))


def token_digest(token: str) -> str:
    """The stored form of a bearer token."""
    return sha256(token.encode(errors="replace")).hexdigest()


class Catalog:
    """The content, indexed. All methods are fast and thread-safe."""

    def __init__(self, content: CatalogContent) -> None:
        self.content = content
        self.anonymous = _ANONYMOUS if content.anonymous else None
        self._tokens = {token.digest: (token, owner) for owner in content.recipients for token in owner.tokens}
        self._tables = {table.id: table for table in content.tables}
        self._recipients = {recipient.id: recipient for recipient in content.recipients}
        if self.anonymous is not None:
            self._recipients[self.anonymous.id] = self.anonymous
        self._views: dict[tuple[str, ...], CatalogView] = {}

    def authenticate(self, token: str, now_ms: int) -> Recipient | None:
        """The recipient with this token; None if it is unknown or expired."""
        digest = token_digest(token)
        # The lookup time depends on the digest, but nobody can choose more than a few of its digits; the constant-time
        # comparison decides.
        kept, owner = self._tokens.get(digest, _NOBODY)
        if not hmac.compare_digest(kept.digest, digest) or (kept.expires is not None and kept.expires <= now_ms):
            return None
        return owner

    def recipient_by_id(self, recipient_id: str) -> Recipient | None:
        return self._recipients.get(recipient_id)

    def has_access(self, recipient: Recipient, now_ms: int) -> bool:
        """Whether the recipient has a valid token; the anonymous one needs none."""
        ends = (token.expires for token in recipient.tokens)
        return recipient is self.anonymous or any(end is None or end > now_ms for end in ends)

    def table_by_id(self, table_id: str) -> Table | None:
        return self._tables.get(table_id)

    def view(self, recipient: Recipient) -> CatalogView:
        """The part of the catalog that the recipient may see."""
        view = self._views.get(recipient.grants)
        if view is None:
            view = self._views[recipient.grants] = CatalogView(self.content, recipient.grants)
        return view


_NOBODY = (BearerToken(digest=""), _ANONYMOUS)


class CatalogView:
    """The granted part of a catalog, sorted by lower-cased names.

    Methods raise the same `SharingError` (404) for things that do not exist and things that are not granted."""

    def __init__(self, content: CatalogContent, grants: Iterable[str]) -> None:
        granted = _granted(grants)
        tables = [table for table in content.tables if granted(table.share, table.schema, table.name)]
        schemas = {_key(*pair): pair[1] for pair in content.schemas if granted(*pair)}
        schemas |= {_key(table.share, table.schema): table.schema for table in tables}
        visible = {share for share, _ in schemas}
        shares = [share for share in content.shares if share.name.lower() in visible or granted(share.name)]
        self._shares = {share.name.lower(): share for share in sorted(shares, key=lambda share: share.name.lower())}
        self._schemas: dict[str, list[str]] = {name: [] for name in self._shares}
        self._tables: dict[tuple[str, str], dict[str, Table]] = {key: {} for key in sorted(schemas)}
        for key in self._tables:
            self._schemas[key[0]].append(schemas[key])
        for table in sorted(tables, key=lambda table: table.name.lower()):
            self._tables[_key(table.share, table.schema)][table.name.lower()] = table

    def shares(self) -> Sequence[Share]:
        return list(self._shares.values())

    def share(self, name: str) -> Share:
        try:
            return self._shares[name.lower()]
        except KeyError:
            raise _no("share", name) from None

    def schemas(self, share: str) -> Sequence[str]:
        self.share(share)
        return self._schemas[share.lower()]

    def tables(self, share: str, schema: str) -> Sequence[Table]:
        return list(self._in_schema(share, schema).values())

    def all_tables(self, share: str) -> Sequence[Table]:
        """Sorted by schema, then by name."""
        return [table for schema in self.schemas(share) for table in self.tables(share, schema)]

    def table(self, share: str, schema: str, name: str) -> Table:
        try:
            return self._in_schema(share, schema)[name.lower()]
        except KeyError:
            raise _no("table", share, schema, name) from None

    def _in_schema(self, share: str, schema: str) -> dict[str, Table]:
        self.share(share)
        try:
            return self._tables[_key(share, schema)]
        except KeyError:
            raise _no("schema", share, schema) from None


def _granted(grants: Iterable[str]) -> Callable[..., bool]:
    """Return a test whether the grants cover a share, a schema (share, name) or a table (share, schema, name)."""
    names = {grant.lower() for grant in grants}
    if EVERYTHING in names:
        return lambda *parts: True
    return lambda *parts: any(".".join(parts[:end]).lower() in names for end in range(1, len(parts) + 1))


def _key(share: str, schema: str) -> tuple[str, str]:
    return share.lower(), schema.lower()


def _no(kind: str, *names: str) -> SharingError:
    message = f"the {kind} '{'.'.join(names)}' does not exist, or is not shared with you"
    return SharingError(message, status=404, code="RESOURCE_DOES_NOT_EXIST")
