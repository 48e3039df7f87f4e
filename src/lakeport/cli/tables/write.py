"""`create`, `append`, `overwrite`, `delete`, `update` and `merge`: write, change and delete rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.filesize import decimal as format_size

from lakeport import tables
from lakeport.cli.display import counted
from lakeport.cli.files.formats import Format
from lakeport.cli.files.sources import Rows, open_sources
from lakeport.cli.options import Json, StorageOption, Target, parse_columns, parse_options
from lakeport.cli.writing import Work, parse_size_of, print_result, working
from lakeport.errors import InvalidDataError
from lakeport.kernel.schema import StructType, parse_schema_text
from lakeport.kernel.snapshot import Table
from lakeport.tables import Result

_SOURCE = (
    "A Parquet, CSV, JSON lines or Arrow file, a pattern such as 'day=*/*.parquet', a Delta table, or - for stdin."
)

Sources = Annotated[list[str], typer.Argument(metavar="SOURCE", help=_SOURCE, show_default=False)]
Kind = Annotated[Format | None, typer.Option("--format", help="The format of SOURCE; by default, from its extension.")]
MergeSchema = Annotated[bool, typer.Option("--merge-schema", help="Add columns that the table lacks.")]
Application = Annotated[
    str | None,
    typer.Option(metavar="NAME:VERSION", help="Do nothing if application NAME already wrote VERSION or a later one."),
]
Rule = Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only rows that match.")]


def create(
    target: Target,
    sources: Annotated[list[str] | None, typer.Argument(metavar="SOURCE", help=_SOURCE, show_default=False)] = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="The columns, such as 'id long not null, price double default 0'."),
    ] = None,
    format: Kind = None,
    partition_by: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Partition by these columns, a directory per value.")
    ] = None,
    cluster_by: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Columns that writers may cluster rows by.")
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A table property, such as delta.enableDeletionVectors=true."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="A human-readable name.")] = None,
    description: Annotated[str | None, typer.Option(help="A description of the table.")] = None,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Create a table with the columns and rows of the sources, or with the columns of --schema."""
    columns = None if schema is None else parse_schema_text(schema)
    with working("creating", target, option) as work, _reading(sources or [], format, columns, work) as rows:
        result = tables.create(
            target,
            rows and rows.to_reader(),
            schema=columns,
            partition_by=parse_columns(partition_by, "--partition-by") if partition_by else (),
            cluster_by=parse_columns(cluster_by, "--cluster-by") if cluster_by else (),
            properties=parse_options(property or [], "--property"),
            name=name,
            description=description,
            engine=work.engine,
        )
    print_result(target, result, "created" + (f" with {_written(result)}" if rows else ""), json)


def append(
    target: Target,
    sources: Sources,
    format: Kind = None,
    merge_schema: MergeSchema = False,
    application: Application = None,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Append the rows of the sources to a table. CSV and JSON are parsed as the table's types."""
    done = parse_application(application)
    with working("appending", target, option) as work, _reading(sources, format, _schema(target, work), work) as rows:
        assert rows is not None
        result = tables.append(
            target, rows.to_reader(), merge_schema=merge_schema, application=done, engine=work.engine
        )
    print_result(target, result, _unless_done(result, f"appended {_written(result)}"), json)


def overwrite(
    target: Target,
    sources: Sources,
    format: Kind = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Replace only rows that match; new rows must match too.")
    ] = None,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="Replace only partitions that get new rows.")] = False,
    overwrite_schema: Annotated[
        bool, typer.Option("--overwrite-schema", help="Replace the table's columns with those of the sources.")
    ] = False,
    merge_schema: MergeSchema = False,
    application: Application = None,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Replace the rows of a table with those of the sources."""
    done = parse_application(application)
    with working("overwriting", target, option) as work:
        types = None if overwrite_schema else _schema(target, work)
        with _reading(sources, format, types, work) as rows:
            assert rows is not None
            result = tables.overwrite(
                target,
                rows.to_reader(),
                where=where,
                partitions="dynamic" if dynamic else "all",
                overwrite_schema=overwrite_schema,
                merge_schema=merge_schema,
                application=done,
                engine=work.engine,
            )
    print_result(target, result, _unless_done(result, f"overwritten with {_written(result)}"), json)


def delete(
    target: Target,
    where: Rule = None,
    all: Annotated[bool, typer.Option("--all", help="Delete every row.")] = False,
    application: Application = None,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Delete the rows that match a condition."""
    _check_choice(where, all, "deletes")
    done = parse_application(application)
    with working("deleting", target, option) as work:
        result = tables.delete(target, where, application=done, engine=work.engine)
    rows = result.metrics.get("numDeletedRows")
    sentence = "deleted " + ("every row" if rows is None else counted(rows, "row"))
    print_result(target, result, _unless_done(result, sentence), json)


def update(
    target: Target,
    set: Annotated[
        list[str], typer.Option(metavar="COLUMN=SQL", help="A new value, such as price='price * 2'; may be repeated.")
    ],
    where: Rule = None,
    all: Annotated[bool, typer.Option("--all", help="Update every row.")] = False,
    application: Application = None,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Set columns to new values in the rows that match a condition."""
    _check_choice(where, all, "updates")
    values = {column.strip(): sql for column, sql in parse_options(set, "--set").items()}
    done = parse_application(application)
    with working("updating", target, option) as work:
        result = tables.update(target, values, where, application=done, engine=work.engine)
    sentence = f"updated {counted(result.metrics.get('numUpdatedRows', 0), 'row')}"
    print_result(target, result, _unless_done(result, sentence), json)


def merge(
    target: Target,
    sources: Sources,
    on: Annotated[str, typer.Option(metavar="SQL", help="Which rows match, such as 'target.id = source.id'.")],
    format: Kind = None,
    update_matched: Annotated[
        bool, typer.Option("--update-matched", help="Update matched rows with all values of the source.")
    ] = False,
    delete_matched: Annotated[bool, typer.Option("--delete-matched", help="Delete matched rows.")] = False,
    insert_new: Annotated[bool, typer.Option("--insert-new", help="Insert source rows without a match.")] = False,
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Delete table rows without a match.")
    ] = False,
    merge_schema: MergeSchema = False,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The memory limit, such as 2gb; by default, half of the memory. A source larger than an eighth of the "
            "limit is spilled to TMPDIR.",
        ),
    ] = None,
    application: Application = None,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Update, delete and insert rows by matching them with the sources."""
    if update_matched and delete_matched:
        raise ValueError("matched rows are either updated or deleted: pass --update-matched or --delete-matched")
    if not (update_matched or delete_matched or insert_new or delete_missing):
        raise ValueError(
            "the merge would do nothing: pass --update-matched or --delete-matched, --insert-new, --delete-missing, or "
            "several of them"
        )
    done, limit = parse_application(application), parse_size_of(memory_limit, "--memory-limit")
    with working("merging", target, option) as work, _reading(sources, format, _schema(target, work), work) as rows:
        assert rows is not None
        work_to_do = tables.merge(
            target,
            rows.to_reader(),
            on,
            merge_schema=merge_schema,
            memory_limit=limit,
            application=done,
            engine=work.engine,
        )
        if update_matched:
            work_to_do = work_to_do.when_matched_update_all()
        if delete_matched:
            work_to_do = work_to_do.when_matched_delete()
        if insert_new:
            work_to_do = work_to_do.when_not_matched_insert_all()
        if delete_missing:
            work_to_do = work_to_do.when_not_matched_by_source_delete()
        result = work_to_do.execute()
    print_result(target, result, _unless_done(result, _merged(result)), json)


@contextmanager
def _reading(texts: list[str], kind: Format | None, types: StructType | None, work: Work) -> Iterator[Rows | None]:
    """Yield the rows of the sources, counted on the bar as they are read; None without sources. Errors name a row by
    its position in its file."""
    if not texts:
        yield None
        return
    with open_sources(texts, kind, types, work.engine, work.options) as rows:
        work.bar.expect(rows.expected_rows)
        try:
            yield rows.each(work.bar.advance)
        except InvalidDataError as error:
            if error.row is None:
                raise
            problem = str(error).removeprefix(f"row {error.row}")
            raise InvalidDataError(rows.place_of(error.row) + problem, column=error.column, row=error.row) from error


def _schema(target: str, work: Work) -> StructType:
    return Table.for_path(work.engine, target).latest_snapshot().schema


def parse_application(text: str | None) -> tuple[str, int] | None:
    """Parse `NAME:VERSION` into the name of an application and the version of its work."""
    if text is None:
        return None
    name, _, version = text.rpartition(":")
    if not name or not version.isdecimal():
        raise ValueError(f"--application takes NAME:VERSION with a numeric version, not {text!r}")
    return name, int(version)


def _check_choice(where: str | None, all_rows: bool, verb: str) -> None:
    if (where is None) != all_rows:
        raise ValueError(f"pass either --where SQL or --all, which {verb} every row")


def _unless_done(result: Result, sentence: str) -> str:
    return sentence if result.metrics else "nothing to do: the table already has this"


def _written(result: Result) -> str:
    metrics = result.metrics
    rows, files = counted(metrics.get("numOutputRows", 0), "row"), counted(metrics.get("numFiles", 0), "file")
    return f"{rows} in {files} ({format_size(metrics.get('numOutputBytes', 0))})"


def _merged(result: Result) -> str:
    names = {"inserted": "numTargetRowsInserted", "updated": "numTargetRowsUpdated", "deleted": "numTargetRowsDeleted"}
    return ", ".join(f"{verb} {counted(result.metrics.get(name, 0), 'row')}" for verb, name in names.items())
