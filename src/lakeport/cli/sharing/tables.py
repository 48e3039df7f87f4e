"""`table`: the tables of shares."""

from __future__ import annotations

from dataclasses import astuple
from typing import Annotated, Any

import typer

from lakeport.cli.display import print_text
from lakeport.cli.options import Json, parse_options
from lakeport.cli.sharing.catalog import DEFAULT_CATALOG, CatalogUrl, Rename, loaded, print_listed, say, share_admin
from lakeport.errors import LakeportError
from lakeport.frame import scan
from lakeport.sharing.names import parse_table_name

app = typer.Typer(help="Add, list, change and remove the tables of shares.", no_args_is_help=True)

TableName = Annotated[
    str, typer.Argument(metavar="SHARE.SCHEMA.TABLE", help="The name of the table.", show_default=False)
]
History = Annotated[
    bool | None, typer.Option("--history/--no-history", help="Whether recipients may read older versions and changes.")
]
StartVersion = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="The first version that recipients may read.")
]
Auxiliary = Annotated[
    list[str] | None,
    typer.Option(
        "--auxiliary-location",
        metavar="URL",
        help="Another directory or bucket that may hold files of the table; may be repeated.",
    ),
]
AccessModes = Annotated[
    list[str] | None,
    typer.Option(
        "--access-mode",
        metavar="url|dir",
        help="How recipients read files: url (signed URLs) or dir (credentials for the directory); repeat for both.",
    ),
]
Storage = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="A storage option for the table; may be repeated."),
]
Check = Annotated[bool, typer.Option("--check/--no-check", help="Check that there is a Delta table.")]


@app.command()
def add(
    name: TableName,
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="A Delta table: a path, or a URL like s3://…")],
    history: History = None,
    start_version: StartVersion = None,
    auxiliary_location: Auxiliary = None,
    access_mode: AccessModes = None,
    option: Storage = None,
    check: Check = True,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """Add a table to a share; a missing schema is created."""
    address = astuple(parse_table_name(name))
    changes = _changes(None, location, history, start_version, auxiliary_location, access_mode, option)
    with share_admin(catalog) as admin:
        added = admin.add_table(*address, **changes)
    print_text(f"added table {name!r}")
    if check:
        _check(added.location, added.storage)


@app.command("list")
def list_all(
    within: Annotated[
        str | None, typer.Argument(metavar="SHARE[.SCHEMA]", help="Only tables of this share or schema.")
    ] = None,
    json: Json = False,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """List the tables of shares. With --json, print one object per line; storage options are not shown."""
    documents = [
        {
            "name": f"{table.share}.{table.schema}.{table.name}",
            "id": table.id,
            "location": table.location,
            "historyShared": table.history_shared,
            "startVersion": table.start_version,
            "auxiliaryLocations": table.auxiliary_locations,
            "accessModes": table.access_modes,
        }
        for table in loaded(catalog).tables
        if within is None or within.lower() in (table.share.lower(), f"{table.share}.{table.schema}".lower())
    ]
    documents.sort(key=lambda document: str(document["name"]).lower())
    print_listed(documents, ["name", "location", "historyShared", "accessModes"], json)


@app.command()
def update(
    name: TableName,
    rename: Rename = None,
    location: Annotated[str | None, typer.Option(metavar="URL", help="The table's new location.")] = None,
    history: History = None,
    start_version: StartVersion = None,
    auxiliary_location: Auxiliary = None,
    access_mode: AccessModes = None,
    option: Storage = None,
    check: Check = True,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """Change the given settings; a renamed table keeps its grants and its id."""
    changes = _changes(rename, location, history, start_version, auxiliary_location, access_mode, option)
    if not changes:
        raise ValueError("nothing to change: pass --rename, --location, --history or another option")
    with share_admin(catalog) as admin:
        table = admin.update_table(*astuple(parse_table_name(name)), **changes)
    print_text(f"changed table {f'{table.share}.{table.schema}.{table.name}'!r}")
    if check and (location or option):
        _check(table.location, table.storage)


@app.command()
def remove(name: TableName, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """Remove a table and all its grants from a share. The table itself is not touched."""
    with share_admin(catalog) as admin:
        admin.remove_table(*astuple(parse_table_name(name)))
    print_text(f"removed table {name!r}")


def _changes(
    rename: str | None,
    location: str | None,
    history: bool | None,
    start_version: int | None,
    auxiliary_locations: list[str] | None,
    access_modes: list[str] | None,
    options: list[str] | None,
) -> dict[str, Any]:
    """The fields of a table that were given a value."""
    given = {
        "name": rename,
        "location": location,
        "history_shared": history,
        "start_version": start_version,
        "auxiliary_locations": auxiliary_locations and tuple(auxiliary_locations),
        "access_modes": access_modes and tuple(access_modes),
        "storage": options and parse_options(options),
    }
    return {field: value for field, value in given.items() if value is not None}


def _check(location: str, storage: dict[str, str]) -> None:
    """Warn if no table can be opened there; a server may have access that this program lacks."""
    try:
        _ = scan(location, storage_options=storage).snapshot
    except LakeportError as error:
        say(f"warning: recipients will not be able to read it: {' '.join(str(error).split())}")
