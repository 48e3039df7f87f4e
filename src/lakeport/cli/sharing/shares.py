"""`share`: the shares of a catalog."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakeport.cli.display import print_text
from lakeport.cli.options import Json, parse_options
from lakeport.cli.sharing.catalog import DEFAULT_CATALOG, CatalogUrl, Force, Rename, loaded, print_listed, share_admin

app = typer.Typer(help="Add, list, change and remove shares.", no_args_is_help=True)

ShareName = Annotated[str, typer.Argument(metavar="SHARE", help="The name of the share.", show_default=False)]
DisplayName = Annotated[str | None, typer.Option(metavar="TEXT", help="The name shown to people.")]
Comment = Annotated[str | None, typer.Option(metavar="TEXT", help="A description of the share.")]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="A property; may be repeated.")
]


@app.command()
def add(
    name: ShareName,
    display_name: DisplayName = None,
    comment: Comment = None,
    properties: Properties = None,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """Create an empty share, and the catalog if it is a SQLite file that does not exist yet."""
    given = parse_options(properties or [], "--property")
    with share_admin(catalog, create=True) as admin:
        admin.add_share(name, display_name=display_name, comment=comment, properties=given)
    print_text(f"added share {name!r}; run `lakeport table add {name}.SCHEMA.TABLE LOCATION` to add a table")


@app.command("list")
def list_all(json: Json = False, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """List the shares. With --json, print one object per line."""
    content = loaded(catalog)
    documents = [
        {
            "name": share.name,
            "id": share.id,
            "displayName": share.display_name,
            "comment": share.comment,
            "properties": share.properties,
            "tables": sum(table.share == share.name for table in content.tables),
        }
        for share in content.shares
    ]
    print_listed(documents, ["name", "displayName", "comment", "tables"], json)


@app.command()
def update(
    name: ShareName,
    rename: Rename = None,
    display_name: DisplayName = None,
    comment: Comment = None,
    properties: Properties = None,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """Change the given settings; an empty display name or comment removes it. A renamed share keeps its grants."""
    changes: dict[str, Any] = {} if rename is None else {"name": rename}
    changes |= {} if display_name is None else {"display_name": display_name or None}
    changes |= {} if comment is None else {"comment": comment or None}
    changes |= {} if properties is None else {"properties": parse_options(properties, "--property")}
    if not changes:
        raise ValueError("nothing to change: pass --rename, --display-name, --comment or --property")
    with share_admin(catalog) as admin:
        share = admin.update_share(name, **changes)
    print_text(f"changed share {share.name!r}")


@app.command()
def remove(name: ShareName, force: Force = False, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """Remove a share and all its grants. The tables themselves are not touched."""
    with share_admin(catalog) as admin:
        admin.remove_share(name, force=force)
    print_text(f"removed share {name!r}")
