"""The database of a catalog: its tables, opening, consistent reads, and changes.

`key` is the lower-cased name, used for lookups. `state` has one row. Deletes cascade; a grant without a target covers
everything.

Every change first increments the generation. That locks the only row of `state`: changes are serialised, and their
checks still hold at commit.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, SQLAlchemyError

from lakeport.errors import CatalogError, StorageError

METADATA = sa.MetaData()


def _named() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
    ]


def _part_of(name: str, target: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.ForeignKey(target, ondelete="CASCADE"), nullable=nullable, index=True)


STATE = sa.Table(
    "state",
    METADATA,
    sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("signing_key", sa.LargeBinary, nullable=False),
)
SHARES = sa.Table(
    "shares",
    METADATA,
    *_named(),
    sa.Column("display_name", sa.Text),
    sa.Column("comment", sa.Text),
    sa.Column("properties", sa.JSON, nullable=False),
    sa.UniqueConstraint("key"),
)
SCHEMAS = sa.Table(
    "schemas", METADATA, *_named(), _part_of("share_id", "shares.id"), sa.UniqueConstraint("share_id", "key")
)
TABLES = sa.Table(
    "tables",
    METADATA,
    *_named(),
    _part_of("schema_id", "schemas.id"),
    sa.Column("location", sa.Text, nullable=False),
    sa.Column("history_shared", sa.Boolean, nullable=False),
    sa.Column("start_version", sa.BigInteger, nullable=False),
    sa.Column("auxiliary_locations", sa.JSON, nullable=False),
    sa.Column("access_modes", sa.JSON, nullable=False),
    sa.Column("storage", sa.JSON, nullable=False),
    sa.UniqueConstraint("schema_id", "key"),
)
RECIPIENTS = sa.Table(
    "recipients", METADATA, *_named(), sa.Column("ip_allow_list", sa.JSON, nullable=False), sa.UniqueConstraint("key")
)
TOKENS = sa.Table(
    "tokens",
    METADATA,
    sa.Column("digest", sa.Text, primary_key=True),
    _part_of("recipient_id", "recipients.id"),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("expires", sa.BigInteger),
)
PROFILES = sa.Table(
    "profiles",
    METADATA,
    sa.Column("recipient_id", sa.ForeignKey("recipients.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("endpoint", sa.Text),
    sa.Column("lifetime", sa.BigInteger),
)
"""A recipient's last profile: the server's URL, and the token's lifetime in milliseconds."""
GRANTS = sa.Table(
    "grants",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    _part_of("recipient_id", "recipients.id"),
    _part_of("share_id", "shares.id", nullable=True),
    _part_of("schema_id", "schemas.id", nullable=True),
    _part_of("table_id", "tables.id", nullable=True),
)


_SCHEMA_VERSION = 1
_KEY_BYTES = 32
_BUSY_SECONDS = 30
_CREATION_LOCK = 0x6C616B65706F7274
"""Arbitrary, but the same for all servers."""
_FILE = "file"
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


class Database:
    """An open database with the tables of a catalog; `create` makes a new SQLite file.

    Methods raise `StorageError` if the database does not respond; the constructor also raises `CatalogError` for a URL
    or a database that cannot be used. Thread-safe."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        parsed = _parse_url(url)
        self.name = parsed.render_as_string(hide_password=True)
        """The URL without the password, for display."""
        self._engine = _open_sqlite(parsed, create) if parsed.drivername == "sqlite" else _open_server(parsed)
        try:
            with self._errors():
                self._create_tables()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Everything read in the block comes from one snapshot."""
        engine = self._engine
        if engine.dialect.name != "sqlite":
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._errors(), engine.connect() as connection:
            yield connection

    def generation(self) -> object:
        """A value that differs after every change."""
        with self.reading() as connection:
            return connection.info.get(_FILE), connection.scalar(sa.select(STATE.c.generation))

    @contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """One transaction: committed at the end of the block, rolled back if the block raises."""
        with self._errors(), self._writing() as connection:
            connection.execute(sa.update(STATE).values(generation=STATE.c.generation + 1))
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        # SQLite refuses to upgrade a transaction that has read before another one wrote: start as a writer.
        with self._engine.execution_options(begin="BEGIN IMMEDIATE").begin() as connection:
            yield connection

    def _create_tables(self) -> None:
        with self._writing() as connection:
            if connection.dialect.name != "sqlite":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _CREATION_LOCK})
            METADATA.create_all(connection)
            version = connection.scalar(sa.select(STATE.c.schema_version))
            if version is None:
                key = secrets.token_bytes(_KEY_BYTES)
                row = {"id": 1, "schema_version": _SCHEMA_VERSION, "generation": 0, "signing_key": key}
                connection.execute(sa.insert(STATE).values(row))
            elif version != _SCHEMA_VERSION:
                raise CatalogError(
                    f"the catalog {self.name} has version {version}, but this release needs version {_SCHEMA_VERSION}"
                )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            reason = " ".join(str(cause).split())
            raise StorageError(f"the catalog cannot be used: {reason}", path=self.name) from error


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise CatalogError("a catalog must be a URL like sqlite:///path or postgresql://user@host/name") from None
    driver = _DRIVERS.get(parsed.drivername.partition("+")[0])
    if driver is None:
        raise CatalogError(f"a catalog must be in SQLite or PostgreSQL, not in {parsed.drivername}")
    if driver == "sqlite" and (not parsed.database or parsed.database == ":memory:"):
        raise CatalogError("a SQLite catalog must be a file: write its URL like sqlite:///path/lakeport.db")
    return parsed.set(drivername=driver)


def _open_server(url: URL) -> sa.Engine:
    try:
        from lakeport.server.catalog.postgresql import ARGUMENTS, limit_waiting
    except ModuleNotFoundError as error:
        raise CatalogError("a catalog in PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from error
    # Test connections before use: the database may have been restarted.
    engine = sa.create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=ARGUMENTS)
    limit_waiting(engine)
    return engine


def _open_sqlite(url: URL, create: bool) -> sa.Engine:
    assert url.database is not None
    _make_file(url.database, create)
    engine = sa.create_engine(url, hide_parameters=True, connect_args={"timeout": _BUSY_SECONDS})
    _follow_file(engine, url.database)
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_file(path: str, create: bool) -> None:
    """Only the owner can read a new database: it holds the signing key."""
    if not create and not os.path.exists(path):
        raise CatalogError(f"there is no catalog in {path}: `lakeport share add` creates one")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StorageError(f"the catalog cannot be opened: {error.strerror}", path=path) from error


def _follow_file(engine: sa.Engine, path: str) -> None:
    """Reconnect if the file at the path was replaced: an open connection would keep reading the old file and never see
    another change."""

    def note(_: object, record: Any, *__: object) -> None:
        record.info[_FILE] = _identity(path)

    def check(_: object, record: Any, *__: object) -> None:
        if record.info[_FILE] != _identity(path):
            raise DisconnectionError  # makes the pool connect again

    sa.event.listen(engine, "do_connect", note)
    sa.event.listen(engine, "checkout", check)


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise StorageError(f"the catalog is gone: {error.strerror}", path=path) from error
    return status.st_dev, status.st_ino


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # we manage transactions, not the driver
    connection.execute("PRAGMA foreign_keys = ON")
    end = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except connection.OperationalError:  # the first switch to WAL ignores the busy timeout
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))
