"""`optimize`, `vacuum`, `restore`, `set` and `checkpoint`: table maintenance."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.filesize import decimal as format_size

from lakeport import tables
from lakeport.cli.display import counted, print_table, print_text, printable
from lakeport.cli.options import Json, StorageOption, Target, parse_columns, parse_options
from lakeport.cli.writing import Work, parse_size_of, print_result, working
from lakeport.tables import FilterEffect, Result, VacuumResult

_SHOWN = 100
"""The most deletable files printed without --json."""


def optimize(
    target: Target,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="Only partitions that match.")] = None,
    target_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The size of new files, such as 128mb; by default, the table's setting."),
    ] = None,
    purge: Annotated[bool, typer.Option("--purge", help="Rewrite all files that have deleted rows.")] = False,
    zorder_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns such as a,b. Rewrites all files so that filters on these columns can skip files.",
        ),
    ] = None,
    cluster_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS", help="Like --zorder-by, but along a Hilbert curve, which lets filters skip more files."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Reorder every row of a clustered table, including rows ordered by earlier clustering columns.",
        ),
    ] = False,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Compact small files into larger ones, without their deleted rows, and order the rows of clustered tables."""
    size = parse_size_of(target_size, "--target-size")
    with working("optimizing", target, option, "bytes") as work:
        result = tables.optimize(
            target,
            where=where,
            zorder_by=parse_columns(zorder_by, "--zorder-by") if zorder_by else (),
            cluster_by=parse_columns(cluster_by, "--cluster-by") if cluster_by else (),
            full=full,
            target_size=size,
            purge=purge,
            progress=work.bar.reach,
            engine=work.engine,
        )
    if not json:
        for effect in result.effect:
            print_text(_described(effect))
    print_result(target, result, _optimized(result), json, effect=list(map(asdict, result.effect)))


def vacuum(
    target: Target,
    retention: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="Keep files needed within this interval, such as '7 days'.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the files; by default they are only listed.")
    ] = False,
    retention_check: Annotated[
        bool,
        typer.Option("--retention-check/--no-retention-check", help="Refuse a retention shorter than the table's."),
    ] = True,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """List the files that no version within the retention period needs; delete them with --delete."""
    with working("deleting" if delete else "listing", target, option, "files") as work:
        result = tables.vacuum(
            target,
            retention=retention,
            dry_run=not delete,
            enforce_retention=retention_check,
            progress=work.bar.reach,
            engine=work.engine,
        )
        if not delete and not json:
            _print_files(target, result, work)
    if delete or json:
        sentence = f"deleted {counted(len(result.files), 'file')} ({format_size(result.bytes)})"
        print_result(target, result, sentence, json, deleted=result.deleted, files=result.files)


def restore(
    target: Target,
    version: Annotated[int | None, typer.Option(min=0, metavar="N", help="The version to restore.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Restore the version at this time: ISO 8601, UTC unless it has a zone."),
    ] = None,
    ignore_missing_files: Annotated[
        bool, typer.Option("--ignore-missing-files", help="Restore the remaining files if some are missing.")
    ] = False,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Restore a table to an earlier version, as a new version."""
    with working("restoring", target, option, "files") as work:
        result = tables.restore(
            target,
            version=version,
            timestamp=timestamp,
            ignore_missing_files=ignore_missing_files,
            engine=work.engine,
        )
    metrics = result.metrics
    files = (
        f"{counted(metrics.get('numRestoredFiles', 0), 'file')} added, {metrics.get('numRemovedFiles', 0):,} removed"
    )
    print_result(target, result, f"restored {timestamp or f'version {version}'}: {files}", json)


def set_properties(
    target: Target,
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Table properties.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A property to remove; may be repeated.")
    ] = None,
    json: Json = False,
    option: StorageOption = None,
) -> None:
    """Set or remove properties of a table."""
    if bool(pairs) == bool(unset):
        raise ValueError("pass either properties as KEY=VALUE or their names with --unset")
    properties = parse_options(pairs or [], "lakeport set")
    with working("setting", target, option) as work:
        if unset:
            result = tables.unset_properties(target, unset, engine=work.engine)
        else:
            result = tables.set_properties(target, properties, engine=work.engine)
    print_result(target, result, f"{'unset' if unset else 'set'} {', '.join(unset or properties)}", json)


def checkpoint(target: Target, json: Json = False, option: StorageOption = None) -> None:
    """Write a checkpoint of the latest version, so that the table opens faster."""
    with working("writing", target, option) as work:
        result = tables.checkpoint(target, engine=work.engine)
    print_result(target, result, "wrote a checkpoint", json)


def _described(effect: FilterEffect) -> str:
    before, after = (
        f"{cost.files:.1f} of {counted(cost.of_files, 'file')} ({format_size(int(cost.bytes))})"
        for cost in (effect.before, effect.after)
    )
    return f"a filter on {' and '.join(map(printable, effect.columns))} reads {after}, before {before}"


def _optimized(result: Result) -> str:
    metrics = result.metrics
    if not metrics.get("numRemovedFiles"):
        return "nothing to do"
    before, after = (
        f"{counted(metrics[f'num{which}Files'], 'file')} ({format_size(metrics[f'num{which}Bytes'])})"
        for which in ("Removed", "Added")
    )
    return f"rewrote {before} as {after}"


def _print_files(target: str, result: VacuumResult, work: Work) -> None:
    if not result.files:
        print_text("nothing to delete")
        return
    storage = work.engine.storage
    root = storage.resolve(target)
    found = [storage.status(f"{root}/{path}") for path in result.files[:_SHOWN]]
    sizes = ["" if status is None else format_size(status.size) for status in found]
    print_table(["size", "path"], list(zip(sizes, result.files, strict=False)), [True, False])
    more = len(result.files) - _SHOWN
    if more > 0:
        print_text(f"and {more:,} more; --json lists all of them")
    total = f"{counted(len(result.files), 'file')} ({format_size(result.bytes)})"
    print_text(f"{total} can be deleted: run again with --delete")
