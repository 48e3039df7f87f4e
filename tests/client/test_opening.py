"""The ways to give a profile, and the ways to read a table."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import lakeport
from lakeport.client.auth import open_profile
from lakeport.client.opening import near_names
from lakeport.client.rest.server import SharingServer
from lakeport.engine import memory_engine
from lakeport.errors import SharingError
from lakeport.sharing.names import TableName
from lakeport.sharing.profile import BearerToken, Profile
from lakeport.testing.http import reply, scripted
from tests.client.shares import NOWHERE, profile_text, sharing_tables

PROFILE = Profile(endpoint=NOWHERE, credentials=BearerToken(token="abc"))
TEXT = profile_text(NOWHERE, "abc")


def test_a_profile_is_a_path_or_text_or_a_dict_or_itself(tmp_path: Path) -> None:
    path = tmp_path / "config.share"
    path.write_text(TEXT)
    assert open_profile(path) == open_profile(str(path)) == open_profile(TEXT) == PROFILE
    assert open_profile(json.loads(TEXT)) == PROFILE
    assert open_profile(PROFILE) is PROFILE


def test_a_profile_comes_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "config.share"
    path.write_text(TEXT)
    for environment in (
        {"LAKEPORT_PROFILE": str(path)},
        {"LAKEPORT_PROFILE": TEXT},
        {"LAKEPORT_ENDPOINT": NOWHERE, "LAKEPORT_BEARER_TOKEN": "abc"},
    ):
        assert open_profile(None, environment) == PROFILE


@pytest.mark.parametrize(
    "environment",
    [{}, {"LAKEPORT_ENDPOINT": NOWHERE}, {"LAKEPORT_BEARER_TOKEN": "abc"}, {"LAKEPORT_PROFILE": ""}],
    ids=str,
)
def test_without_a_profile_it_is_said_where_one_is_looked_for(environment: Mapping[str, str]) -> None:
    with pytest.raises(
        ValueError, match=r"pass one, or set LAKEPORT_PROFILE, or LAKEPORT_ENDPOINT and LAKEPORT_BEARER"
    ):
        open_profile(None, environment)


def test_what_is_no_profile_is_refused_without_being_quoted() -> None:
    wrong = {"LAKEPORT_ENDPOINT": "ftp://abc", "LAKEPORT_BEARER_TOKEN": "secret"}
    with pytest.raises(ValueError, match="LAKEPORT_ENDPOINT and LAKEPORT_BEARER_TOKEN has a endpoint") as failed:
        open_profile(None, wrong)
    assert "secret" not in str(failed.value)
    with pytest.raises(ValueError, match="profile is empty"):
        open_profile(" ")
    with pytest.raises(ValueError, match="JSON cannot represent") as failed:
        open_profile({"bearerToken": object()})
    assert "object" not in str(failed.value)
    with pytest.raises(ValueError, match="upgrade Lakeport"):
        open_profile({**json.loads(TEXT), "shareCredentialsVersion": 3})
    with pytest.raises(FileNotFoundError, match="no profile at"):
        open_profile("nowhere.share")


def test_a_table_that_is_offered_by_its_directory_only_is_not_read_by_urls(tmp_path: Path) -> None:
    with sharing_tables(tmp_path, access_modes=("dir",)) as shared:
        with (
            lakeport.connect(shared.profile, access="url") as connection,
            pytest.raises(SharingError, match=r"by its directory only: read it with access='dir'"),
        ):
            connection.scan("sales.eu.orders").to_arrow()
        # Without a choice the directory is taken; the server has no credentials for one on its own disk.
        for read in (lambda f: f.to_arrow(), lambda f: f.schema, lambda f: f.changes(start=0).to_arrow()):
            with pytest.raises(SharingError) as failed:
                read(lakeport.scan(shared.target("sales.eu.orders")))
            assert failed.value.code != "DIRECTORY_ONLY"
            assert failed.value.status == 400


def test_a_table_that_is_offered_both_ways_is_read_by_urls(tmp_path: Path) -> None:
    with sharing_tables(tmp_path, access_modes=("dir", "url")) as shared:
        assert lakeport.scan(shared.target("sales.eu.orders")).count() == 4
        with lakeport.connect(shared.profile, access="dir") as connection, pytest.raises(SharingError):
            connection.scan("sales.eu.orders").count()


def test_names_are_not_near_if_the_server_does_not_tell_any() -> None:
    with (
        scripted(lambda _: reply(status=403)) as script,
        SharingServer(Profile(endpoint=script.url, credentials=PROFILE.credentials)) as server,
    ):
        assert near_names(server, TableName("a", "b", "c")) == []


def test_an_engine_is_refused_for_a_shared_table() -> None:
    with pytest.raises(ValueError, match="engine applies only to tables at a path"):
        lakeport.scan("config.share#a.b.c", engine=memory_engine())
