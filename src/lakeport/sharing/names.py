"""Names of shares, schemas and tables, and the URL of a shared table: `profile#share.schema.table`.

See "Names" in the protocol.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["share", "schema", "table"]

_MOST_CHARACTERS = 255
_FORBIDDEN = re.compile(r"[ /\x00-\x1f\x7f]")
_FORBIDDEN_WITH_PERIOD = re.compile(r"[ ./\x00-\x1f\x7f]")
_STORAGE = re.compile(r"(?!https?:|file:)[a-zA-Z][a-zA-Z0-9+.-]+:/")
_SPOKEN = {" ": "a space", "/": "a slash", ".": "a period"}


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a shared table."""

    share: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class TableUrl:
    """A shared table: the location of the recipient's profile, and the table's name."""

    profile: str
    share: str
    schema: str
    table: str

    @property
    def name(self) -> TableName:
        return TableName(self.share, self.schema, self.table)


def check_name(kind: Kind, name: str) -> None:
    """Raises `ValueError`, with the reason, for an invalid name of a share, a schema or a table."""
    if not name:
        raise ValueError(f"the name of a {kind} cannot be empty")
    if len(name) > _MOST_CHARACTERS:
        raise ValueError(f"the name of a {kind} can have at most {_MOST_CHARACTERS} characters: {name[:20]!r}…")
    pattern = _FORBIDDEN if kind == "share" else _FORBIDDEN_WITH_PERIOD
    if found := pattern.search(name):
        what = _SPOKEN.get(found[0], f"the control character {found[0]!r}")
        raise ValueError(f"the name of a {kind} cannot contain {what}: {name!r}")


def parse_table_name(text: str) -> TableName:
    """Parse `share.schema.table`; the share's name may contain periods. Raises `ValueError`."""
    parts = text.rsplit(".", 2)
    if len(parts) != 3:
        raise ValueError(f"{text!r} is not a shared table: write share.schema.table")
    _check_parts(text, parts)
    return TableName(*parts)


def parse_table_url(text: str) -> TableUrl:
    """Parse `profile#share.schema.table`; the profile may contain `#`, and the share's name periods.

    Raises `ValueError` for anything else."""
    profile, hash_sign, table = text.rpartition("#")
    parts = table.rsplit(".", 2)
    if not profile or not hash_sign or len(parts) != 3:
        raise ValueError(f"{text!r} is not a shared table: write profile#share.schema.table")
    _check_parts(text, parts)
    return TableUrl(profile, *parts)


def _check_parts(text: str, parts: list[str]) -> None:
    kinds: tuple[Kind, ...] = ("share", "schema", "table")
    for kind, name in zip(kinds, parts, strict=True):
        try:
            check_name(kind, name)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a shared table: {error}") from None


def is_table_url(text: str) -> bool:
    """Whether the text is a shared table: it ends with `#` and a three-part name, and is not a storage URL."""
    profile, hash_sign, table = text.rpartition("#")
    return bool(profile and hash_sign and table.count(".") >= 2 and "/" not in table and not _STORAGE.match(profile))
