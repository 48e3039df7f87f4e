"""`share`, `schema`, `table`, `recipient` and `grant`: a catalog on the command line."""

import json
import sqlite3
import stat
import time
from pathlib import Path

import pytest

from lakeport.server.catalog.index import Catalog
from lakeport.server.catalog.model import Recipient
from lakeport.server.catalog.sql_source import SqlSource
from lakeport.sharing.profile import BearerToken, Profile, parse_profile, read_profile
from tests.cli.conftest import Result, Run

DAY = 86_400_000


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The catalog is `lakeport.db` in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEPORT_CATALOG", raising=False)
    return tmp_path


@pytest.fixture
def sales(lakeport: Run, orders: str) -> None:
    """The share `Sales` with the table `eu.orders`."""
    succeed(lakeport("share", "add", "Sales", "--comment", "what we sell"))
    succeed(lakeport("table", "add", "sales.eu.orders", orders, "--history"))


def succeed(result: Result) -> Result:
    assert result.code == 0, result.err
    return result


def refused(result: Result, message: str) -> None:
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def authenticated(token: str, at: int | None = None) -> Recipient | None:
    """Whose token it is, for a server on the catalog in the current directory."""
    source = SqlSource("sqlite:///lakeport.db")
    try:
        return Catalog(source.load()).authenticate(token, int(time.time() * 1000) if at is None else at)
    finally:
        source.close()


def token_in(text: str) -> str:
    credentials = parse_profile(text).credentials
    assert isinstance(credentials, BearerToken)
    return credentials.token


def test_what_was_added_is_listed(lakeport: Run, sales: None, orders: str) -> None:
    [share] = lakeport("share", "list", "--json").documents
    assert (share["name"], share["comment"], share["tables"]) == ("Sales", "what we sell", 1)
    assert lakeport("schema", "list", "--json").documents == [{"share": "Sales", "name": "eu", "tables": 1}]
    [table] = lakeport("table", "list", "--json").documents
    assert (table["name"], table["location"], table["historyShared"]) == ("Sales.eu.orders", orders, True)
    assert "what we sell" in lakeport("share", "list").out
    assert "Sales.eu.orders" in lakeport("table", "list", "sales").out
    assert "Sales.eu.orders" in lakeport("table", "list", "SALES.EU").out
    assert lakeport("table", "list", "sales.us", "--json").out == ""
    assert lakeport("schema", "list", "nothing", "--json").out == ""


def test_a_share_can_be_changed(lakeport: Run, sales: None) -> None:
    succeed(lakeport("share", "update", "sales", "--rename", "Trade", "--comment", "", "--property", "a=b=c"))
    [share] = lakeport("share", "list", "--json").documents
    assert (share["name"], share["comment"], share["properties"]) == ("Trade", None, {"a": "b=c"})
    refused(lakeport("share", "update", "trade"), "nothing to change: pass")


def test_a_table_can_be_changed(lakeport: Run, sales: None) -> None:
    arguments = ["--rename", "bills", "--no-history", "--start-version", 2, "--access-mode", "dir"]
    succeed(lakeport("table", "update", "sales.eu.orders", *arguments, "--auxiliary-location", "s3a://b/x/"))
    [table] = lakeport("table", "list", "--json").documents
    assert (table["name"], table["historyShared"], table["startVersion"]) == ("Sales.eu.bills", False, 2)
    assert (table["accessModes"], table["auxiliaryLocations"]) == (["dir"], ["s3://b/x"])
    refused(lakeport("table", "update", "sales.eu.bills"), "nothing to change: pass")


def test_a_schema_can_be_made_renamed_and_removed(lakeport: Run, sales: None) -> None:
    succeed(lakeport("schema", "add", "sales.us"))
    succeed(lakeport("schema", "update", "sales.us", "--rename", "America"))
    names = [document["name"] for document in lakeport("schema", "list", "sales", "--json").documents]
    assert names == ["America", "eu"]
    succeed(lakeport("schema", "remove", "sales.america"))
    refused(lakeport("schema", "remove", "sales.eu"), "pass --force")
    succeed(lakeport("schema", "remove", "sales.eu", "--force"))
    assert lakeport("table", "list", "--json").out == ""


def test_schema_still_shows_the_columns_of_a_table(lakeport: Run, sales: None, orders: str) -> None:
    for arguments in ([orders, "--json"], ["--json", orders], ["show", orders, "--json"]):
        [document] = succeed(lakeport("schema", *arguments)).documents
        assert document["table"] == orders
    assert "rename" not in lakeport("schema", orders).out
    refused(lakeport("schema"), "TARGET")
    assert "show" in lakeport("schema", "--help").out


def test_a_share_with_tables_is_removed_only_by_force(lakeport: Run, sales: None, orders: str) -> None:
    refused(lakeport("share", "remove", "SALES"), "still has tables (1): pass --force")
    succeed(lakeport("share", "remove", "SALES", "--force"))
    assert lakeport("share", "list", "--json").out == ""
    assert lakeport("count", orders).code == 0  # the table itself is as it was


def test_a_location_without_a_table_is_shared_with_a_warning(lakeport: Run, sales: None, here: Path) -> None:
    result = succeed(lakeport("table", "add", "sales.eu.nothing", "nowhere"))
    assert "warning" in result.err
    assert "there is no Delta table" in result.err
    assert succeed(lakeport("table", "add", "sales.eu.later", "nowhere", "--no-check")).err == ""
    places = [document["location"] for document in lakeport("table", "list", "--json").documents]
    assert places[0] == places[1] == f"{here}/nowhere"
    succeed(lakeport("table", "remove", "sales.eu.later"))
    assert len(lakeport("table", "list", "--json").documents) == 2


def test_a_recipient_gets_a_profile_that_only_the_owner_can_read(lakeport: Run, sales: None, here: Path) -> None:
    arguments = ["--profile", "ann.share", "--expires", "90d", "--endpoint", "https://example.com/delta-sharing/"]
    result = succeed(lakeport("recipient", "add", "ann", *arguments, "--ip", "10.0.0.0/8"))
    assert "ann.share" in result.out
    path = here / "ann.share"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    profile = read_profile(path)
    assert (profile.version, profile.endpoint) == (1, "https://example.com/delta-sharing")
    assert profile.expires is not None
    assert abs(profile.expires - time.time() * 1000 - 90 * DAY) < DAY
    token = token_in(path.read_text())
    assert token not in result.out + result.err
    ann = authenticated(token)
    assert ann is not None
    assert (ann.name, ann.ip_allow_list, ann.grants) == ("ann", ("10.0.0.0/8",), ())
    assert authenticated(token, profile.expires) is None
    [document] = lakeport("recipient", "list", "--json").documents
    assert document["tokens"][0]["expires"].endswith("Z")
    assert token not in json.dumps(document)
    assert "valid until" in lakeport("recipient", "list").out


def test_the_profile_is_printed_if_there_is_no_file_for_it(lakeport: Run, sales: None, here: Path) -> None:
    result = succeed(lakeport("recipient", "add", "ann"))
    profile = parse_profile(result.out)
    assert (profile.endpoint, profile.expires) == ("http://localhost:8080/delta-sharing", None)
    assert "--endpoint" in result.err


def test_the_servers_configuration_tells_the_endpoint_and_the_catalog(lakeport: Run, here: Path) -> None:
    (here / "server.yaml").write_text(
        "version: 1\npublicUrl: https://example.com\nendpoint: /s\ncatalog: sqlite:///served.db"
    )
    result = succeed(lakeport("recipient", "add", "ann", "--config", "server.yaml"))
    assert parse_profile(result.out).endpoint == "https://example.com/s"
    assert len(lakeport("recipient", "list", "--json", "--catalog", "sqlite:///served.db").documents) == 1
    (here / "server.yaml").write_text("version: 1")
    refused(lakeport("recipient", "add", "ann", "--config", "server.yaml"), "is a file: edit it")
    assert not (here / "lakeport.db").exists()


def test_no_recipient_is_made_if_its_profile_cannot_be_written(lakeport: Run, sales: None, here: Path) -> None:
    (here / "ann.share").write_text("something else")
    result = lakeport("recipient", "add", "ann", "--profile", "ann.share")
    assert (result.code, "File exists" in result.err) == (1, True)
    assert lakeport("recipient", "add", "ann", "--profile", "no/where").code == 1
    assert (here / "ann.share").read_text() == "something else"
    assert lakeport("recipient", "list", "--json").out == ""


def test_no_file_is_left_if_the_recipient_cannot_be_made(lakeport: Run, sales: None, here: Path) -> None:
    succeed(lakeport("recipient", "add", "ann"))
    result = lakeport("recipient", "add", "ANN", "--profile", "ann.share", "--endpoint", "https://example.com")
    refused(result, "already")
    assert not (here / "ann.share").exists()


def test_rotated_tokens_overlap(lakeport: Run, sales: None) -> None:
    first = token_in(lakeport("recipient", "add", "ann").out)
    second = token_in(succeed(lakeport("recipient", "rotate", "ann", "--overlap", "2h")).out)
    now = int(time.time() * 1000)
    assert first != second
    assert authenticated(first) is not None
    assert authenticated(first, now + DAY) is None
    assert authenticated(second, now + DAY) is not None
    third = token_in(succeed(lakeport("recipient", "rotate", "ann", "--overlap", "0m")).out)
    assert [authenticated(token) is not None for token in (first, second, third)] == [False, False, True]


def lifetime(profile: Profile) -> float:
    """In days, from now on."""
    assert profile.expires is not None
    return (profile.expires - time.time() * 1000) / DAY


@pytest.mark.parametrize("revoked", [False, True])
def test_a_rotated_profile_keeps_the_endpoint_and_the_lifetime_of_its_token(
    lakeport: Run, sales: None, revoked: bool
) -> None:
    succeed(lakeport("recipient", "add", "ann", "--expires", "90d", "--endpoint", "https://example.com/s"))
    for _ in range(2):
        if revoked:
            succeed(lakeport("recipient", "revoke", "ann"))
        result = succeed(lakeport("recipient", "rotate", "ann", "--overlap", "1h"))
        profile = parse_profile(result.out)
        assert profile.endpoint == "https://example.com/s"
        assert lifetime(profile) == pytest.approx(90, abs=0.1)
        assert "--endpoint" not in result.err
    assert authenticated(token_in(result.out), int(time.time() * 1000) + 91 * DAY) is None


def test_what_a_rotation_is_told_takes_the_place_of_what_was_kept(lakeport: Run, sales: None) -> None:
    succeed(lakeport("recipient", "add", "ann", "--expires", "90d", "--endpoint", "https://example.com/s"))
    moved = ["--expires", "7d", "--endpoint", "https://elsewhere.example.com/s"]
    succeed(lakeport("recipient", "rotate", "ann", *moved))
    again = parse_profile(succeed(lakeport("recipient", "rotate", "ann")).out)
    assert again.endpoint == "https://elsewhere.example.com/s"
    assert lifetime(again) == pytest.approx(7, abs=0.1)
    for arguments in (["--expires", "never"], []):
        endless = parse_profile(succeed(lakeport("recipient", "rotate", "ann", *arguments)).out)
        assert endless.expires is None


def test_a_catalog_that_did_not_keep_endpoints_yet_keeps_lifetimes(lakeport: Run, sales: None, here: Path) -> None:
    succeed(lakeport("recipient", "add", "ann", "--expires", "90d", "--endpoint", "https://example.com/s"))
    with sqlite3.connect(here / "lakeport.db") as connection:
        connection.execute("DROP TABLE profiles")
    connection.close()
    result = succeed(lakeport("recipient", "rotate", "ann"))
    assert lifetime(parse_profile(result.out)) == pytest.approx(90, abs=0.1)
    assert "--endpoint" in result.err


def test_revoked_and_removed_recipients_have_no_tokens(lakeport: Run, sales: None) -> None:
    ann, bob = (token_in(lakeport("recipient", "add", name).out) for name in ("ann", "bob"))
    succeed(lakeport("recipient", "revoke", "ann"))
    succeed(lakeport("recipient", "remove", "bob"))
    assert authenticated(ann) is authenticated(bob) is None
    assert [document["name"] for document in lakeport("recipient", "list", "--json").documents] == ["ann"]


def test_a_recipient_can_be_changed(lakeport: Run, sales: None) -> None:
    succeed(lakeport("recipient", "add", "ann"))
    succeed(lakeport("recipient", "update", "ann", "--rename", "Anne", "--ip", "10.0.0.1", "--ip", "::1"))
    [anne] = lakeport("recipient", "list", "--json").documents
    assert (anne["name"], anne["ipAllowList"]) == ("Anne", ["10.0.0.1", "::1"])
    succeed(lakeport("recipient", "update", "anne", "--any-ip"))
    assert lakeport("recipient", "list", "--json").documents[0]["ipAllowList"] == []
    refused(lakeport("recipient", "update", "anne"), "nothing to change: pass")
    refused(lakeport("recipient", "update", "anne", "--ip", ""), "'' is neither an address nor a network")
    refused(
        lakeport("recipient", "add", "bob", "--ip", "", "--endpoint", "https://x"),
        "'' is neither an address nor a network",
    )
    refused(lakeport("recipient", "add", "bob", "--expires", ""), "--expires")
    refused(lakeport("recipient", "update", "anne", "--any-ip", "--ip", "::1"), "either")


def test_grants_are_added_listed_and_removed(lakeport: Run, sales: None) -> None:
    token = token_in(lakeport("recipient", "add", "ann").out)
    for target in ("sales", "sales.eu", "sales.eu.orders", "*"):
        succeed(lakeport("grant", "add", "ann", target))
    listed = [document["grant"] for document in lakeport("grant", "list", "ANN", "--json").documents]
    assert listed == ["*", "Sales", "Sales.eu", "Sales.eu.orders"]
    for target in ("*", "Sales", "sales.eu"):
        succeed(lakeport("grant", "remove", "ann", target))
    ann = authenticated(token)
    assert ann is not None
    assert ann.grants == ("Sales.eu.orders",)
    assert "Sales.eu.orders" in lakeport("grant", "list").out
    assert lakeport("grant", "list", "bob", "--json").out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["share", "add", "SALES"], "share 'SALES' exists already"),
        (["share", "add", "a b"], "cannot contain a space"),
        (["share", "remove", "nothing"], "there is no share 'nothing'"),
        (["schema", "add", "nothing"], "write it as share.schema"),
        (["table", "add", "sales.orders", "/x"], "write share.schema.table"),
        (["table", "add", "sales.eu.x", "/x", "--access-mode", "ftp"], "access modes"),
        (["table", "add", "sales.eu.x", "/x", "--option", "region"], "KEY=VALUE"),
        (["recipient", "add", "ann", "--expires", "soon"], "--expires takes"),
        (["recipient", "add", "ann", "--expires", "2020-01-01T00:00:00Z"], "is not in the future"),
        (["recipient", "add", "ann", "--expires", "0d"], "is not in the future"),
        (["recipient", "add", "ann", "--endpoint", "example.com"], "--endpoint takes a URL"),
        (["serve", "--public-url", "example.com"], "publicUrl must be a URL"),
        (["recipient", "rotate", "ann", "--overlap", "long"], "--overlap takes"),
        (["grant", "remove", "nobody", "sales"], "there is no recipient 'nobody'"),
        (["share", "list", "--catalog", "mysql://x/y"], "SQLite or PostgreSQL"),
        (["share", "add", "x", "--catalog", "server.yaml"], "is a file: edit it"),
        (["share", "list", "--catalog", "sqlite:///other.db"], "there is no catalog in other.db"),
        (["table", "add", "sales.eu.x", "/x", "--catalog", "sqlite:///other.db"], "there is no catalog in other.db"),
    ],
)
def test_a_mistake_is_told_in_one_line(lakeport: Run, sales: None, arguments: list[str], message: str) -> None:
    result = lakeport(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_the_catalog_can_be_named_by_the_environment(lakeport: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_CATALOG", "sqlite:///elsewhere.db")
    succeed(lakeport("share", "add", "a"))
    monkeypatch.delenv("LAKEPORT_CATALOG")
    assert len(lakeport("share", "list", "--json", "--catalog", "sqlite:///elsewhere.db").documents) == 1
    assert lakeport("share", "list").code == 2
