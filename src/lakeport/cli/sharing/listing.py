"""`ls`: what is shared with a recipient."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from lakeport.cli.display import print_json_lines, print_table
from lakeport.cli.options import Json
from lakeport.connection import Connection, connect
from lakeport.sharing.models import Schema, Share, Table

_Listed = Sequence[Share] | Sequence[Schema] | Sequence[Table]


def ls(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE[#SHARE[.SCHEMA]]",
            help="A profile from a provider; by default, the one in LAKEPORT_PROFILE.",
            show_default=False,
        ),
    ] = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="List the tables of all shares, or of all schemas.")] = False,
    json: Json = False,
) -> None:
    """List the shares of a profile, the schemas of a share, or the tables of a schema. With --json, print one object
    per line."""
    profile, name = _split(target or "")
    with connect(profile or None) as connection:
        share, schema = _parts(connection, name)
        print_listed(_listed(connection, share, schema, all), json)


def _split(target: str) -> tuple[str, str]:
    """Split a target into the profile, which may itself contain `#`, and the name after it."""
    if "#" not in target or target.rstrip().endswith("}") or os.path.isfile(target):
        return target, ""
    profile, _, name = target.rpartition("#")
    return profile, name


def _parts(connection: Connection, name: str) -> tuple[str, str]:
    """Split a name into share and schema; the share's name may contain periods."""
    share, _, schema = name.rpartition(".")
    if not share or name.lower() in (found.name.lower() for found in connection.shares()):
        return name, ""
    return share, schema


def _listed(connection: Connection, share: str, schema: str, all: bool) -> _Listed:
    if schema:
        return connection.tables(share, schema)
    if all:
        return connection.all_tables(share or None)
    return connection.schemas(share) if share else connection.shares()


def print_listed(found: _Listed, json: bool) -> None:
    """Print one JSON object per line, or a table of full names for people."""
    documents: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in found]
    if json:
        print_json_lines(documents)
        return
    rows = [[full_name(one), _about(one)] for one in found]
    columns = ["name", "about"] if any(about for _, about in rows) else ["name"]
    print_table(columns, [row[: len(columns)] for row in rows], [False] * len(columns))


def full_name(one: Share | Schema | Table) -> str:
    match one:
        case Share():
            return one.name
        case Schema():
            return f"{one.share}.{one.name}"
        case Table():
            return f"{one.share}.{one.schema}.{one.name}"


def _about(one: Share | Schema | Table) -> str:
    match one:
        case Share():
            return one.comment or one.display_name or ""
        case Table() if one.access_modes and "url" not in one.access_modes:
            return "directory access only"
        case _:
            return ""
