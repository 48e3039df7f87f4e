"""`convert`, `verify` and `clean`: Iceberg mirrors of Delta tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal as format_size

from lakeport.cli.display import counted, print_json, print_table, print_text, printable
from lakeport.cli.options import Json, StorageOption, Target, parse_options
from lakeport.cli.writing import working

if TYPE_CHECKING:
    from lakeport.iceberg import Cleaning, Conversion, Verification

_INTERRUPTED = 130
_SHOWN = 100
"""The most differences, snapshots or files printed without --json."""

Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="The directory of the Iceberg table: a path or a URL. By default TARGET/_iceberg, or "
        "TARGET/_iceberg-NAMESPACE.NAME with a catalog.",
    ),
]
CatalogName = Annotated[
    str | None, typer.Option(metavar="NAME", help="A catalog from pyiceberg's configuration; needs --table.")
]
CatalogOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A catalog property, such as uri=https://…; may be repeated."),
]
CatalogTable = Annotated[
    str | None, typer.Option("--table", metavar="NAMESPACE.NAME", help="The mirror's name in the catalog.")
]


@dataclass(frozen=True)
class _Place:
    """A Delta table and the location of its mirror, as arguments for the functions in `lakeport.iceberg`."""

    target: str
    out: str | None
    catalog: Any
    table: str | None


def convert(
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="A Delta table: a path, or a URL like s3://…", show_default=False),
    ] = None,
    out: Out = None,
    catalog: CatalogName = None,
    catalog_option: CatalogOption = None,
    table: CatalogTable = None,
    datasets: Annotated[
        str | None, typer.Option(metavar="FILE", help="Instead of TARGET, a YAML file of datasets in XTable's format.")
    ] = None,
    format_version: Annotated[
        int | None,
        typer.Option(min=2, max=3, help="Iceberg's format version, 2 or 3; by default the mirror's own, or 2."),
    ] = None,
    since: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Start a new mirror at this version instead of the latest.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Always write one snapshot of the whole table; not with --since.")
    ] = False,
    squash: Annotated[
        bool, typer.Option("--squash", help="Write one snapshot for all new versions, not one for each.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running and mirror new versions as they appear.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How often --watch checks for new versions.")
    ] = 10,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Create or update the Iceberg mirror of a Delta table. Data files are neither copied nor changed."""
    places = _find_places(target, datasets, out, _parse_catalog(catalog, catalog_option), table)
    settings: dict[str, Any] = {"format_version": format_version, "since": since, "full": full, "squash": squash}
    is_first = True
    with _reported_interrupt():
        while is_first or watch:
            _convert_all(places, settings, option, json, report_always=is_first)
            if watch:
                time.sleep(every)
            is_first, settings["full"] = False, False


def _convert_all(
    places: list[_Place], settings: dict[str, Any], option: list[str] | None, json: bool, *, report_always: bool
) -> None:
    """Convert each table. If one of several fails, convert the others, then exit with 1."""
    from lakeport.iceberg import convert as convert_table  # imported late to save the other commands memory

    is_failed = False
    for place in places:
        try:
            with working("converting", place.target, option, "versions") as work:
                result = convert_table(**vars(place), **settings, progress=work.bar.reach, engine=work.engine)
        except Exception as error:
            if len(places) == 1 or isinstance(error, typer.Exit):
                raise
            is_failed = True
            _print_failure(place.target, error, json)
        else:
            if report_always or result.versions:
                _print_conversion(place.target, result, json)
    if is_failed:
        raise typer.Exit(1)


def verify(
    target: Target,
    out: Out = None,
    catalog: CatalogName = None,
    catalog_option: CatalogOption = None,
    table: CatalogTable = None,
    version: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The mirrored version to compare; by default the latest.")
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Also compare the rows, in every column.")] = False,
    duckdb: Annotated[bool, typer.Option("--duckdb", help="Also compare the rows as DuckDB reads them.")] = False,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Compare the data files and deleted rows of a mirror, as pyiceberg reads it, with its Delta table. The exit code
    is 1 if they differ."""
    from lakeport.iceberg import verify as verify_mirror

    place = _Place(target, out, _parse_catalog(catalog, catalog_option), table)
    with working("comparing", target, option, "files") as work:
        result = verify_mirror(
            **vars(place),
            version=version,
            rows=rows,
            duckdb=duckdb,
            progress=work.bar.reach,
            storage_options=work.options,
            engine=work.engine,
        )
    if json:
        print_json({"table": target, "is_equal": result.is_equal, **asdict(result)})
    else:
        _print_verification(target, result)
    if not result.is_equal:
        raise typer.Exit(1)


def clean(
    target: Target,
    out: Out = None,
    catalog: CatalogName = None,
    catalog_option: CatalogOption = None,
    table: CatalogTable = None,
    retention: Annotated[
        str, typer.Option(metavar="INTERVAL", help="Keep snapshots that were current within this interval.")
    ] = "7 days",
    grace: Annotated[
        str,
        typer.Option(
            metavar="INTERVAL", help="Keep unreferenced files younger than this: a running conversion may need them."
        ),
    ] = "1 day",
    delete: Annotated[
        bool, typer.Option("--delete", help="Expire snapshots and delete files; by default they are only listed.")
    ] = False,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """List a mirror's expired snapshots and the generated files that only they use; --delete removes both. A snapshot
    expires when it is too old or its data files were vacuumed. Data files are never touched."""
    from lakeport.iceberg import clean as clean_mirror

    place = _Place(target, out, _parse_catalog(catalog, catalog_option), table)
    with working("cleaning", target, option, "files") as work:
        result = clean_mirror(**vars(place), retention=retention, grace=grace, dry_run=not delete, engine=work.engine)
    if json:
        print_json({"table": target, **asdict(result)})
    else:
        _print_cleaning(result)


# Locations


def _parse_catalog(name: str | None, pairs: list[str] | None) -> Any:
    """The catalog argument of the functions in `lakeport.iceberg`: None, a name, or properties."""
    properties = parse_options(pairs or [], "--catalog-option")
    if not properties:
        return name
    return properties if name is None else {"name": name, **properties}


def _find_places(
    target: str | None, datasets: str | None, out: str | None, catalog: Any, table: str | None
) -> list[_Place]:
    if (target is None) == (datasets is None):
        raise ValueError("pass either TARGET or a file of tables with --datasets")
    if target is not None:
        return [_Place(target, out, catalog, table)]
    if out is not None or table is not None:
        raise ValueError("--datasets names the tables: drop --out and --table")
    from lakeport.iceberg.xtable_config import parse_datasets

    found = parse_datasets(Path(str(datasets)).read_text())
    return [_Place(dataset.path, None, catalog, catalog and dataset.identifier) for dataset in found]


@contextmanager
def _reported_interrupt() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print("lakeport: interrupted: the mirror shows the last version that was mirrored completely", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None


# Output


def _print_conversion(target: str, result: Conversion, json: bool) -> None:
    if json:
        print_json({"table": target, **asdict(result)})
        return
    mirror = f"{printable(result.location)} (Iceberg, format version {result.format_version})"
    if not result.versions:
        print_text(f"no new version: {mirror} shows version {result.version} of {printable(target)}")
        return
    what = "the whole table" if result.kind == "full" and len(result.versions) == 1 else "changes"
    print_text(
        f"wrote {counted(len(result.versions), 'snapshot')} of {what}; {mirror} shows version {result.version} of "
        f"{printable(target)}"
    )


def _print_failure(target: str, error: Exception, json: bool) -> None:
    what = printable(" ".join((str(error) or type(error).__name__).split()))
    print(f"lakeport: {printable(target)}: {what}", file=sys.stderr)
    if json:
        print_json({"table": target, "error": what})


def _print_verification(target: str, result: Verification) -> None:
    compared = f"{counted(result.files, 'file')}, {counted(result.deleted_rows, 'deleted row')}"
    compared += ", all rows" if result.rows_compared else ""
    compared += f", confirmed by {result.second_reader}" if result.second_reader and result.is_equal else ""
    compared += f", not confirmed by a second reader ({result.no_second_reader})" if result.no_second_reader else ""
    about = f"version {result.version} of {printable(target)}: {compared}"
    if result.is_equal:
        print_text(f"the mirror matches {about}")
        return
    shown = [(difference.path, difference.what) for difference in result.differences[:_SHOWN]]
    print_table(["path", "difference"], shown, [False, False])
    _print_rest(len(result.differences))
    print_text(f"{counted(len(result.differences), 'difference')}; {about}")


def _print_cleaning(result: Cleaning) -> None:
    if not result.expired and not result.files:
        print_text("nothing to clean")
        return
    if result.expired:
        snapshots = [(expired.snapshot_id, expired.version, expired.reason) for expired in result.expired[:_SHOWN]]
        print_table(["snapshot", "version", "reason"], snapshots, [True, True, False])
        _print_rest(len(result.expired))
    if result.files and not result.deleted:
        print_table(["path"], [(path,) for path in result.files[:_SHOWN]], [False])
        _print_rest(len(result.files))
    total = f"{counted(len(result.expired), 'snapshot')} and {counted(len(result.files), 'file')}"
    total += f" ({format_size(result.bytes)})"
    print_text(f"removed {total}" if result.deleted else f"{total} can be removed: run again with --delete")


def _print_rest(number: int) -> None:
    if number > _SHOWN:
        print_text(f"and {number - _SHOWN:,} more; --json lists all of them")
