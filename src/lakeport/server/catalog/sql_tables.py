"""The tables of a catalog in a database. `key` is the lower-cased name, used for lookups.

`state` has one row. Deletes cascade; a grant without a target covers everything.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()


def _named() -> list[Column[Any]]:
    return [
        Column("id", Text, primary_key=True),
        Column("name", Text, nullable=False),
        Column("key", Text, nullable=False),
    ]


def _part_of(name: str, target: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, ForeignKey(target, ondelete="CASCADE"), nullable=nullable, index=True)


STATE = Table(
    "state",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("schema_version", Integer, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("signing_key", LargeBinary, nullable=False),
)
SHARES = Table(
    "shares",
    METADATA,
    *_named(),
    Column("display_name", Text),
    Column("comment", Text),
    Column("properties", JSON, nullable=False),
    UniqueConstraint("key"),
)
SCHEMAS = Table("schemas", METADATA, *_named(), _part_of("share_id", "shares.id"), UniqueConstraint("share_id", "key"))
TABLES = Table(
    "tables",
    METADATA,
    *_named(),
    _part_of("schema_id", "schemas.id"),
    Column("location", Text, nullable=False),
    Column("history_shared", Boolean, nullable=False),
    Column("start_version", BigInteger, nullable=False),
    Column("auxiliary_locations", JSON, nullable=False),
    Column("access_modes", JSON, nullable=False),
    Column("storage", JSON, nullable=False),
    UniqueConstraint("schema_id", "key"),
)
RECIPIENTS = Table(
    "recipients", METADATA, *_named(), Column("ip_allow_list", JSON, nullable=False), UniqueConstraint("key")
)
TOKENS = Table(
    "tokens",
    METADATA,
    Column("digest", Text, primary_key=True),
    _part_of("recipient_id", "recipients.id"),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
)
PROFILES = Table(
    "profiles",
    METADATA,
    Column("recipient_id", ForeignKey("recipients.id", ondelete="CASCADE"), primary_key=True),
    Column("endpoint", Text),
    Column("lifetime", BigInteger),
)
"""A recipient's last profile: the server's URL, and the token's lifetime in milliseconds."""
GRANTS = Table(
    "grants",
    METADATA,
    Column("id", Integer, primary_key=True),
    _part_of("recipient_id", "recipients.id"),
    _part_of("share_id", "shares.id", nullable=True),
    _part_of("schema_id", "schemas.id", nullable=True),
    _part_of("table_id", "tables.id", nullable=True),
)
