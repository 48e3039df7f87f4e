"""`sync`: copies of shared tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal as format_size

from lakeport import tables
from lakeport.cli.display import counted, print_json, print_text, printable
from lakeport.cli.options import Access, Json, StorageOption, parse_options
from lakeport.cli.writing import Work, working
from lakeport.tables import VacuumResult

if TYPE_CHECKING:
    from lakeport.client.sync import SyncResult

Shared = Annotated[
    str, typer.Argument(metavar="TARGET", help="A shared table: profile#share.schema.table", show_default=False)
]
Dest = Annotated[str, typer.Argument(metavar="DEST", help="The copy, new or existing: a path, or a URL like s3://…")]


def sync(
    target: Shared,
    dest: Dest,
    full: Annotated[
        bool, typer.Option("--full", help="Reset the copy to what is shared now, undoing other changes.")
    ] = False,
    squash: Annotated[
        bool, typer.Option("--squash", help="Write one version for all changes, not one for each of the provider's.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare all files with the shared ones, byte for byte.")
    ] = False,
    vacuum: Annotated[
        bool,
        typer.Option(
            "--vacuum", help="After the sync, delete files that no version within the copy's retention period needs."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; write nothing.")] = False,
    json: Json = False,
    access: Access = None,
    shared_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A storage option for the shared table's directory; may be repeated."),
    ] = None,
    option: StorageOption = None,
) -> None:
    """Copy a shared table into your own Delta table, or update the copy.

    Data removed from the share is removed from the copy; its files stay for older versions until a vacuum."""
    from lakeport.client import ClientOptions  # imported late to save the other commands memory
    from lakeport.client.sync import sync_table

    client = ClientOptions(access=access, storage_options=parse_options(shared_option or [], "--shared-option"))
    with working("copying", dest, option, "bytes") as work:
        result = sync_table(
            target,
            dest,
            full=full,
            squash=squash,
            verify=verify,
            dry_run=dry_run,
            progress=work.bar.reach,
            engine=work.engine,
            client=client,
        )
        vacuumed = _vacuumed(dest, work) if vacuum and not dry_run else None
    _print(target, dest, result, vacuumed, json)


def _vacuumed(dest: str, work: Work) -> VacuumResult:
    return tables.vacuum(dest, dry_run=False, engine=work.engine)


def _print(target: str, dest: str, result: SyncResult, vacuumed: VacuumResult | None, json: bool) -> None:
    if json:
        deleted = None if vacuumed is None else len(vacuumed.files)
        print_json({"target": target, "dest": dest, **vars(result), "vacuumed_files": deleted})
        return
    print_text(_summary(dest, result))
    if result.verified_files is not None:
        print_text(f"verified: {counted(result.verified_files, 'file')}, identical to the shared ones")
    if vacuumed is not None:
        print_text(f"deleted {counted(len(vacuumed.files), 'file')} ({format_size(vacuumed.bytes)})")


def _summary(dest: str, result: SyncResult) -> str:
    shared = f"version {result.source_version} of the shared table"
    if not result.commits:
        return f"nothing to do: {printable(dest)} already has {shared}"
    fetched = f"{counted(result.fetched_files, 'file')} ({format_size(result.fetched_bytes)})"
    if result.dry_run:
        versions = counted(result.commits, "version")
        return (
            f"would fetch {fetched} for {versions} up to {shared}, and remove {counted(result.removed_files, 'file')}"
        )
    return (
        f"fetched {fetched}, removed {counted(result.removed_files, 'file')}; {printable(dest)} is at version "
        f"{result.version}, which is {shared}"
    )
