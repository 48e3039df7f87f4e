"""`sql`: DuckDB's SQL over frames and Delta tables, and which tables a query names."""

from __future__ import annotations

import logging
import os
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeport.frame import Rows, scan
from lakeport.frame.rows import optional_package
from lakeport.locations import cloud_of, file_path
from lakeport.sharing.names import is_table_url

if TYPE_CHECKING:
    import duckdb

_FILES = frozenset({".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".gz", ".zst", ".db", ".duckdb", ".xlsx"})
"""Files that DuckDB reads itself."""
_PART = re.compile(r'"((?:[^"]|"")*)"|([^."\s]+)')
"""A part of a table's name, as DuckDB writes it."""
_EXPLAIN = re.compile(r"^\s*EXPLAIN(\s+ANALYZE)?\b(\s*\([^)]*\))?", re.IGNORECASE)
"""Removed because sqlglot does not parse the explained statement."""


class NamedTable(NamedTuple):
    """A table as SQL names it; omitted parts are empty."""

    database: str
    schema: str
    name: str


def sql(query: str, /, **tables: Rows[Any] | str) -> duckdb.DuckDBPyRelation:
    """The lazy result of a query in DuckDB's SQL, over the frames or targets given by name, and over Delta tables and
    shared ones by their quoted targets:

        lakeport.sql("select city, sum(amount) from orders group by city", orders=lakeport.scan("s3://bucket/orders"))
        lakeport.sql("select count(*) from 'data/orders' join 'config.share#sales.eu.cities' using (city)")

    Targets are read at their latest version. Raises what opening the tables raises, and DuckDB's errors for an invalid
    query."""
    connection = open_duckdb()
    for name, rows in tables.items():
        _make_view(rows, connection, name)
    for table in tables_in(query, connection):
        if not table.schema and table.name not in tables and is_place(table.name):
            _make_view(table.name, connection, table.name)
    return connection.sql(query)


def open_duckdb() -> duckdb.DuckDBPyConnection:
    """A database in memory, which does not take names of tables for Python variables."""
    with optional_package("duckdb"):
        import duckdb
    return duckdb.connect(config={"python_enable_replacements": False})


def _make_view(rows: Rows[Any] | str, connection: duckdb.DuckDBPyConnection, name: str) -> None:
    from lakeport.relations.duckdb_relation import make_view

    make_view(scan(rows) if isinstance(rows, str) else rows, connection, name)


def tables_in(query: str, connection: duckdb.DuckDBPyConnection) -> set[NamedTable]:
    """The tables that a statement names in full or in quotes; none if it cannot be parsed: DuckDB reports the error."""
    import duckdb

    try:
        found = connection.get_table_names(query, qualified=True)
    except duckdb.ParserException:
        return set()
    except duckdb.Error:  # it names tables only in statements that are valid without them
        return _tables_parsed(query)
    named = (_named(text) for text in found)
    return {table for table in named if table.schema or _is_quoted(table.name, query)}


def _named(text: str) -> NamedTable:
    """Parse a name, which an alias may follow."""
    parts, position = [], 0
    while match := _PART.match(text, position):
        parts.append(match[2] or match[1].replace('""', '"'))
        position = match.end() + 1
        if text[match.end() : position] != ".":
            break
    return NamedTable(*(["", "", *parts][-3:]))


def _is_quoted(name: str, query: str) -> bool:
    return any(f"{quote}{name.replace(quote, quote * 2)}{quote}" in query for quote in "'\"")


def _tables_parsed(query: str) -> set[NamedTable]:
    from sqlglot import ErrorLevel, exp, parse
    from sqlglot.errors import SqlglotError

    # It logs statements that it does not know; DuckDB decides whether they are valid.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        statements = parse(_EXPLAIN.sub("", query), read="duckdb", error_level=ErrorLevel.IGNORE)
    except (SqlglotError, RecursionError):
        return set()
    found = (table for statement in statements if statement is not None for table in statement.find_all(exp.Table))
    return {
        NamedTable(table.catalog, table.db, table.name)
        for table in found
        if table.name and (table.db or table.this.args.get("quoted"))
    }


def is_place(name: str) -> bool:
    """Whether a name is a Delta table: a shared one, or a location in storage or on disk that is not a file."""
    if is_table_url(name):
        return True
    if PurePath(name).suffix.lower() in _FILES:
        return False
    return cloud_of(name) is not None or os.path.isdir(os.path.join(file_path(name) or name, "_delta_log"))
