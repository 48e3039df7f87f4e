"""`schema`: the columns of a Delta table, and the schemas of shares."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lakeport.cli.display import print_text
from lakeport.cli.options import Json
from lakeport.cli.sharing.catalog import (
    DEFAULT_CATALOG,
    CatalogUrl,
    Force,
    loaded,
    parse_schema_name,
    print_listed,
    share_admin,
)
from lakeport.cli.tables.describe import schema as show_schema

_SHOW = "show"


class _ShowsTables(TyperGroup):
    """Treats any argument that is not a command as a Delta table whose columns to show."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {*self.commands, "-h", "--help"}
        return super().parse_args(ctx, args if args and args[0] in known else [_SHOW, *args])


app = typer.Typer(
    help="Show the columns of a Delta table with `lakeport schema TARGET`, or manage the schemas of shares.",
    cls=_ShowsTables,
)
app.command(_SHOW)(show_schema)

SchemaName = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA", help="The name of the schema.", show_default=False)]


@app.command()
def add(name: SchemaName, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """Create a schema in a share; `lakeport table add` also does this when needed."""
    with share_admin(catalog) as admin:
        admin.add_schema(*parse_schema_name(name))
    print_text(f"added schema {name!r}")


@app.command("list")
def list_all(
    share: Annotated[str | None, typer.Argument(metavar="SHARE", help="Only schemas of this share.")] = None,
    json: Json = False,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """List the schemas of shares. With --json, print one object per line."""
    content = loaded(catalog)
    documents = [
        {
            "share": owner,
            "name": name,
            "tables": sum((table.share, table.schema) == (owner, name) for table in content.tables),
        }
        for owner, name in content.schemas
        if share is None or owner.lower() == share.lower()
    ]
    print_listed(documents, ["share", "name", "tables"], json)


@app.command()
def update(
    name: SchemaName,
    rename: Annotated[str, typer.Option(metavar="NAME", help="The new name, without the share.")],
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """Rename a schema; its tables and grants stay."""
    share, schema = parse_schema_name(name)
    with share_admin(catalog) as admin:
        admin.rename_schema(share, schema, rename)
    print_text(f"changed schema {f'{share}.{rename}'!r}")


@app.command()
def remove(name: SchemaName, force: Force = False, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """Remove a schema and all its grants from a share. The tables themselves are not touched."""
    with share_admin(catalog) as admin:
        admin.remove_schema(*parse_schema_name(name), force=force)
    print_text(f"removed schema {name!r}")
