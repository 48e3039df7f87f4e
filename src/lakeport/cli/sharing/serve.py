"""`serve`: the sharing server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec.structs import replace

from lakeport.cli.sharing.catalog import DEFAULT_CATALOG
from lakeport.errors import CatalogError

if TYPE_CHECKING:
    from lakeport.server.config import ServerConfig

_DEFAULT_PORT = 8080


def serve(
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG", help="A YAML file in the reference server's format.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="NAME", help="The address to listen on: localhost, or 0.0.0.0 for all.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port to listen on: 8080 without CONFIG; 0 picks a free one."),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The database of shares and recipients: sqlite:///path or postgresql://…"),
    ] = None,
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's public URL without its path, such as https://host.")
    ] = None,
    log_format: Annotated[Literal["text", "json"] | None, typer.Option(help="The format of the log.")] = None,
    audit_log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where to record requests for tables; - is stdout.")
    ] = None,
    drain_seconds: Annotated[
        float,
        typer.Option(
            min=0, metavar="N", help="On shutdown, how many seconds to keep listening while /ready returns 503."
        ),
    ] = 0,
    grace_seconds: Annotated[
        int, typer.Option(min=0, metavar="N", help="Seconds that responses in progress may take during shutdown.")
    ] = 30,
) -> None:
    """Share tables with Delta Sharing. Without CONFIG, serve the shares in ./lakeport.db, created by `share add`."""
    try:
        from lakeport.server.serve import serve as run
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is not installed: pip install 'lakeport[server]'") from error
    given = {
        "host": host,
        "port": port,
        "catalog": catalog,
        "public_url": public_url and public_url.rstrip("/"),
        "log_format": log_format,
        "audit_log": audit_log,
    }
    settings = _settings(config, {name: value for name, value in given.items() if value is not None})
    run(
        settings,
        announce=lambda line: typer.echo(line, err=True),
        drain_seconds=drain_seconds,
        grace_seconds=grace_seconds,
    )


def _settings(path: str | None, given: dict[str, Any]) -> ServerConfig:
    """The settings of the file, or the defaults without one, overridden by the options."""
    from lakeport.server.config import ServerConfig, load_config

    if path is None:
        url = os.environ.get("LAKEPORT_CATALOG", DEFAULT_CATALOG)
        return replace(ServerConfig(port=_DEFAULT_PORT, catalog=url), **given)
    config = load_config(path)
    if "catalog" in given and config.has_catalog:
        raise CatalogError(f"{path} has shares or recipients of its own: remove them, or drop --catalog")
    return replace(config, **given)
