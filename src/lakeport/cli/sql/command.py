"""`sql`: query shared tables and Delta tables, once or at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Annotated, BinaryIO

import pyarrow as pa
import typer

from lakeport.cli.display import print_table, print_text
from lakeport.cli.files.formats import Format, format_of, open_writer
from lakeport.cli.options import Access, Cache, Json, StorageOption, parse_options
from lakeport.cli.rendering import json_rows
from lakeport.cli.tables.export import replacing
from lakeport.cli.tables.rows import is_number

if TYPE_CHECKING:
    from lakeport.cli.sql.session import SqlSession


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY", help="SQL over share.schema.table; without it, open a prompt.", show_default=False
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", "-p", metavar="PROFILE", help="The profile of the shares; may be repeated."),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="The output format; by default a table, or the extension of --out.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    json: Json = False,
    access: Access = None,
    cache: Cache = None,
    option: StorageOption = None,
) -> None:
    """Query shared tables as share.schema.table, and Delta tables by their quoted paths, with DuckDB's SQL. The profile
    comes from --profile or LAKEPORT_PROFILE."""
    from lakeport.cli.sql.session import SqlSession
    from lakeport.cli.sql.tables import Catalog

    kind = Format.jsonl if json else format or (format_of(out) if out is not None else None)
    catalog = Catalog(profile or [], access=access, cache=cache, storage_options=parse_options(option or []))
    with SqlSession(catalog) as session:
        if query is None and sys.stdin.isatty():
            from lakeport.cli.sql.prompt import prompt

            prompt(session, lambda text: _run(session, text, kind, None, force, most=_SHOWN))
        else:
            _run(session, sys.stdin.read() if query is None else query, kind, out, force)


_SHOWN = 200
"""The most rows shown at a prompt."""
_PLAN = ["explain_key", "explain_value"]
"""The columns of EXPLAIN, whose result is a drawing."""


def _run(
    session: SqlSession, text: str, kind: Format | None, out: str | None, force: bool, most: int | None = None
) -> None:
    for reader in session.run(text):
        with session.reading(reader) as batches:
            schema = _schema(reader.schema)
            shaped = (_shaped(batch, schema) for batch in batches)
            if kind is None and schema.names == _PLAN:
                print_text("\n".join(text for batch in shaped for text in batch.column(1).to_pylist()).rstrip())
            elif kind is None:
                _print(schema, shaped, most)
            else:
                _write(kind, schema, shaped, out, force)


def _print(schema: pa.Schema, batches: Iterable[pa.RecordBatch], most: int | None) -> None:
    rows = (list(row.values()) for batch in batches for row in json_rows(batch))
    shown = list(rows if most is None else islice(rows, most + 1))
    print_table(schema.names, shown[:most], [is_number(field) for field in schema])
    if most is not None and len(shown) > most:
        print_text(f"only the first {most} rows are shown")


def _write(kind: Format, schema: pa.Schema, batches: Iterator[pa.RecordBatch], out: str | None, force: bool) -> None:
    if out is None and kind in (Format.parquet, Format.arrow) and sys.stdout.isatty():
        raise ValueError(f"{kind} cannot be printed to a terminal: pass --out FILE")
    file: nullcontext[BinaryIO] = nullcontext(sys.stdout.buffer)
    with (
        file if out is None else replacing(out, force=force) as opened,
        closing(open_writer(kind, opened, schema)) as writer,
    ):
        for batch in batches:
            writer.write(batch)
    sys.stdout.buffer.flush()


def _schema(schema: pa.Schema) -> pa.Schema:
    """The schema with unique column names, and with types that files support."""
    names: list[str] = []
    for name in schema.names:
        names.append(name if name not in names else _numbered(name, names))
    return pa.schema(
        [pa.field(name, _plain(f.type), f.nullable, f.metadata) for name, f in zip(names, schema, strict=True)]
    )


def _numbered(name: str, taken: list[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _plain(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(data_type):
        return data_type.value_type
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    return data_type


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.cast(field.type, safe=False)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
