"""`lakeport ls`."""

from dataclasses import replace
from functools import partial

import pytest

from lakeport.cli.sharing import listing
from lakeport.connection import connect
from tests.cli.conftest import Run
from tests.client.shares import NOWHERE, Shared, profile_text
from tests.server.running import TOKEN, running, sharing


def names(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[2:]]


def test_ls_lists_shares_then_schemas_then_tables(lakeport: Run, shared: Shared) -> None:
    assert names(lakeport("ls", shared.profile).out) == ["hr", "sales"]
    assert names(lakeport("ls", shared.target("sales")).out) == ["sales.eu"]
    assert names(lakeport("ls", shared.target("sales.eu")).out) == ["sales.eu.cities", "sales.eu.orders"]


def test_ls_lists_all_tables(lakeport: Run, shared: Shared) -> None:
    assert names(lakeport("ls", shared.profile, "--all").out) == [
        "hr.team.people",
        "sales.eu.cities",
        "sales.eu.orders",
    ]
    assert names(lakeport("ls", "-a", shared.target("hr")).out) == ["hr.team.people"]


def test_ls_tells_machines_everything(lakeport: Run, shared: Shared) -> None:
    documents = lakeport("ls", shared.target("sales.eu"), "--json").documents
    assert [(d["share"], d["schema"], d["name"]) for d in documents] == [
        ("sales", "eu", "cities"),
        ("sales", "eu", "orders"),
    ]
    assert [d["name"] for d in lakeport("ls", shared.profile, "--json").documents] == ["hr", "sales"]
    assert lakeport("ls", shared.target("hr"), "--json").documents == [{"name": "team", "share": "hr"}]


def test_ls_takes_the_profile_of_the_environment(
    lakeport: Run, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lakeport("ls").code == 2
    monkeypatch.setenv("LAKEPORT_PROFILE", str(shared.profile))
    assert names(lakeport("ls").out) == ["hr", "sales"]
    assert names(lakeport("ls", "#hr").out) == ["hr.team"]


def test_the_name_of_a_share_may_have_periods(lakeport: Run, shared: Shared) -> None:
    people = sharing({"x.team.people": shared.folder / "people"})
    content = replace(
        people,
        shares=(replace(people.shares[0], name="acme.eu"),),
        schemas=(("acme.eu", "team"),),
        tables=(replace(people.tables[0], share="acme.eu"),),
    )
    with running(content) as server:
        profile = profile_text(server.endpoint)
        assert names(lakeport("ls", f"{profile}#acme.eu").out) == ["acme.eu.team"]
        assert names(lakeport("ls", f"{profile}#acme.eu.team").out) == ["acme.eu.team.people"]
        assert lakeport("count", f"{profile}#acme.eu.team.people").out == "1\n"


def test_failures_are_told_in_one_line(lakeport: Run, shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "connect", partial(connect, retries=0))
    failures = {
        shared.target("nope"): "'nope' does not exist",
        profile_text(shared.server.endpoint, "wrong"): "the token is wrong or has expired",
        profile_text(NOWHERE): "connection refused: nothing is listening at 127.0.0.1:1",
        profile_text(NOWHERE, expirationTime="2020-01-01T00:00:00Z"): "has expired (2020-01-01T00:00:00Z)",
        "nowhere.share": "no profile at nowhere.share",
    }
    for target, words in failures.items():
        result = lakeport("ls", target)
        assert (result.code, result.out) == (1, "")
        assert words in result.err
        assert len(result.err.splitlines()) == 1
        assert TOKEN not in result.err
