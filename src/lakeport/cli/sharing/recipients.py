"""`recipient` and `grant`: who may read what."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.cli.display import print_text
from lakeport.cli.options import Json
from lakeport.cli.sharing.catalog import (
    DEFAULT_CATALOG,
    CatalogUrl,
    Rename,
    loaded,
    now_ms,
    parse_duration,
    parse_expiry,
    print_listed,
    recipient_admin,
    say,
)
from lakeport.sharing.profile import BearerToken, Profile, format_profile
from lakeport.sharing.timestamps import format_timestamp

if TYPE_CHECKING:
    from lakeport.server.catalog.model import Recipient

app = typer.Typer(help="Add, list, change and remove recipients and their tokens.", no_args_is_help=True)
grant_app = typer.Typer(help="Grant shares, schemas and tables to recipients.", no_args_is_help=True)

_LOCAL = "http://localhost:8080/delta-sharing"
"""Where `lakeport serve` listens by default."""

Name = Annotated[str, typer.Argument(metavar="RECIPIENT", help="The name of the recipient.", show_default=False)]
Addresses = Annotated[
    list[str] | None,
    typer.Option(
        "--ip", metavar="ADDRESS", help="An address or network that the recipient may connect from; may be repeated."
    ),
]
Expires = Annotated[
    str | None, typer.Option(metavar="TIME", help="When its token expires: 90d, 2027-01-01T00:00:00Z, or never.")
]
ProfileFile = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="Write the profile to this new file instead of printing it."),
]
Endpoint = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The server's public URL with its path, such as https://host/delta-sharing."),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The server's configuration, which names the endpoint and the catalog."),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="WHAT", help="share, share.schema, share.schema.table, or * for everything.", show_default=False
    ),
]


@app.command()
def add(
    name: Name,
    expires: Expires = None,
    ip: Addresses = None,
    profile: ProfileFile = None,
    endpoint: Endpoint = None,
    config: Config = None,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """Create a recipient and its profile. The token in the profile cannot be shown again."""
    now = now_ms()
    end = None if expires is None else _parse_end(expires, now)
    given, database = _server(endpoint, config, catalog)
    url = given or _local_server()
    with _profile_output(profile) as output:
        with recipient_admin(database, create=True) as admin:
            token = admin.add(name, now, expires=end, ip_allow_list=ip or (), endpoint=url)
        output.append(_format_profile(url, token, end))
    if profile is not None:
        print_text(f"added recipient {name!r}; its profile is in {profile}")
    say(f"run `lakeport grant add {name} SHARE` to let it read a share")


@app.command("list")
def list_all(json: Json = False, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """List the recipients. With --json, print one object per line."""
    now = now_ms()
    documents = [_document(recipient, None if json else now) for recipient in loaded(catalog).recipients]
    print_listed(documents, ["name", "tokens", "ipAllowList", "grants"], json)


@app.command()
def update(
    name: Name,
    rename: Rename = None,
    ip: Addresses = None,
    any_ip: Annotated[bool, typer.Option("--any-ip", help="Allow connections from any address.")] = False,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """Change the given settings; tokens and grants stay."""
    if rename is None and ip is None and not any_ip:
        raise ValueError("nothing to change: pass --rename, --ip or --any-ip")
    if ip is not None and any_ip:
        raise ValueError("pass either --ip or --any-ip, not both")
    with recipient_admin(catalog) as admin:
        admin.update(name, new_name=rename, ip_allow_list=() if any_ip else ip)
    print_text(f"changed recipient {rename or name!r}")


@app.command()
def rotate(
    name: Name,
    overlap: Annotated[str, typer.Option(metavar="TIME", help="How long older tokens keep working: 24h, 7d.")] = "24h",
    expires: Expires = None,
    profile: ProfileFile = None,
    endpoint: Endpoint = None,
    config: Config = None,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """Create a new token and its profile; older tokens expire after the overlap.

    By default, the new profile names the same server as the last one, and the token has the same lifetime."""
    now = now_ms()
    end = None if expires is None else _parse_end(expires, now)
    kept = parse_duration(overlap, "--overlap")
    given, database = _server(endpoint, config, catalog)
    with _profile_output(profile) as output:
        with recipient_admin(database) as admin:
            terms = admin.terms(name)
            url = given or terms.endpoint or _local_server()
            if expires is None and terms.lifetime is not None:
                end = now + terms.lifetime
            token = admin.rotate(name, now, overlap=kept, expires=end, endpoint=url)
        output.append(_format_profile(url, token, end))
    if profile is not None:
        print_text(f"recipient {name!r} has a new token; its profile is in {profile}")
    say(f"older tokens of {name!r} expire no later than {format_timestamp(now + kept)}")


@app.command()
def revoke(name: Name, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """Revoke all tokens of a recipient immediately; `lakeport recipient rotate` issues a new one."""
    with recipient_admin(catalog) as admin:
        admin.revoke(name)
    print_text(f"revoked the tokens of recipient {name!r}")


@app.command()
def remove(name: Name, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """Remove a recipient, its tokens and its grants."""
    with recipient_admin(catalog) as admin:
        admin.remove(name)
    print_text(f"removed recipient {name!r}")


@grant_app.command("add")
def grant(name: Name, what: Target, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """Let a recipient read a share, a schema, a table, or everything."""
    with recipient_admin(catalog) as admin:
        admin.grant(name, what)
    print_text(f"recipient {name!r} may read {what!r}")


@grant_app.command("list")
def list_grants(
    name: Annotated[str | None, typer.Argument(metavar="RECIPIENT", help="Only this recipient's grants.")] = None,
    json: Json = False,
    catalog: CatalogUrl = DEFAULT_CATALOG,
) -> None:
    """List the grants of recipients. With --json, print one object per line."""
    documents = [
        {"recipient": recipient.name, "grant": grant}
        for recipient in loaded(catalog).recipients
        if name is None or recipient.name.lower() == name.lower()
        for grant in recipient.grants
    ]
    print_listed(documents, ["recipient", "grant"], json)


@grant_app.command("remove")
def ungrant(name: Name, what: Target, catalog: CatalogUrl = DEFAULT_CATALOG) -> None:
    """Revoke a grant."""
    with recipient_admin(catalog) as admin:
        admin.ungrant(name, what)
    print_text(f"recipient {name!r} is no longer granted {what!r}")


@contextmanager
def _profile_output(path: Path | None) -> Iterator[list[str]]:
    """Write the text that the block adds to the list. A file is created before the block runs, so that no token is
    lost if that fails; only its owner can read it. Raises `FileExistsError` and other `OSError`s."""
    text: list[str] = []
    if path is None:
        yield text
        typer.echo("".join(text), nl=False)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise FileExistsError(
            error.errno, "File exists: profiles are never overwritten, name a new file", path
        ) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield text
            file.write("".join(text))
    except BaseException:
        path.unlink()
        raise


def _format_profile(endpoint: str, token: str, expires: int | None) -> str:
    time = None if expires is None else format_timestamp(expires)
    return format_profile(Profile(endpoint=endpoint, credentials=BearerToken(token=token, expiration_time=time)))


def _parse_end(text: str, now: int) -> int | None:
    return None if text.strip().lower() == "never" else parse_expiry(text, now)


def _local_server() -> str:
    say(f"the profile is for a server on this machine ({_LOCAL}): use --endpoint for another")
    return _LOCAL


def _server(endpoint: str | None, config: Path | None, catalog: str) -> tuple[str | None, str]:
    """The server's URL for recipients, if given, and its catalog; options override the configuration."""
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ValueError(f"--endpoint takes a URL like https://host/delta-sharing, not {endpoint!r}")
    if config is None:
        return endpoint and endpoint.rstrip("/"), catalog
    from lakeport.server.config import load_config

    settings = load_config(config)
    configured = settings.catalog or str(config)
    return (endpoint or settings.url).rstrip("/"), configured if catalog == DEFAULT_CATALOG else catalog


def _document(recipient: Recipient, now: int | None) -> dict[str, Any]:
    """A recipient as JSON; with `now`, its tokens are described for people."""
    return {
        "name": recipient.name,
        "id": recipient.id,
        "tokens": [_token(token.expires, now) for token in recipient.tokens],
        "ipAllowList": recipient.ip_allow_list,
        "grants": recipient.grants,
    }


def _token(expires: int | None, now: int | None) -> Any:
    time = None if expires is None else format_timestamp(expires)
    if now is None:
        return {"expires": time}
    if expires is None:
        return "valid"
    return f"{'expired' if expires <= now else 'valid until'} {time}"
