"""`lakeport.connect`: from a profile to what is shared, and to frames over it."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lakeport
from lakeport.client import ClientOptions
from lakeport.errors import AuthenticationError, SharingError, UnavailableError
from lakeport.testing.http import reply, scripted
from tests.client.shares import NOWHERE, Shared, profile_text
from tests.server.running import TOKEN


def test_a_connection_lists_shares_schemas_and_tables(shared: Shared) -> None:
    with lakeport.connect(shared.profile) as connection:
        assert [share.name for share in connection.shares()] == ["hr", "sales"]
        assert [(schema.share, schema.name) for schema in connection.schemas("sales")] == [("sales", "eu")]
        assert [table.name for table in connection.tables("sales", "eu")] == ["cities", "orders"]
        assert [table.name for table in connection.all_tables("sales")] == ["cities", "orders"]
        assert [table.name for table in connection.all_tables()] == ["people", "cities", "orders"]


def test_a_table_is_scanned_by_its_name_or_as_it_was_listed(shared: Shared) -> None:
    with lakeport.connect(str(shared.profile)) as connection:
        orders = connection.scan("sales.eu.orders")
        assert sorted(orders.where("amount > 100").to_arrow()["id"].to_pylist()) == [1, 4]
        (people,) = connection.tables("hr", "team")
        assert connection.scan(people).to_arrow().to_pydict() == {"name": ["Ann"]}
        assert orders.at(version=0).count() == 3
        assert orders.changes(start=1).to_arrow()["_change_type"].to_pylist() == ["insert"]


@pytest.mark.parametrize("name", ["orders", "eu.orders", "a.b.", "a.b.c d", None])
def test_what_cannot_be_the_name_of_a_table_is_refused_before_any_request(name: str) -> None:
    with (
        lakeport.connect(profile_text(NOWHERE)) as connection,
        pytest.raises(ValueError, match=r"is not a shared table: "),
    ):
        connection.scan(name)


def test_a_table_that_is_not_there_is_told_with_names_that_are_near(shared: Shared) -> None:
    with lakeport.connect(shared.profile) as connection:
        with pytest.raises(SharingError, match=r"404.*did you mean sales\.eu\.orders\?$") as failed:
            connection.scan("sales.EU.ordres").to_arrow()
        assert failed.value.status == 404
        with pytest.raises(SharingError, match=r"shared with you$"):
            connection.scan("sales.eu.xyz").to_arrow()


def test_no_secret_is_in_what_a_connection_says_of_itself(shared: Shared) -> None:
    connection = lakeport.connect(shared.profile, storage_options={"secret_access_key": "hidden"})
    text = f"{connection!r} {connection.scan('sales.eu.orders')!r} {ClientOptions(storage_options={'a': 'hidden'})!r}"
    assert TOKEN not in text
    assert "hidden" not in text
    assert "127.0.0.1" in repr(connection)


def test_a_token_that_has_expired_is_not_sent() -> None:
    connection = lakeport.connect(profile_text(NOWHERE, expirationTime="2020-01-01T00:00:00Z"))
    with pytest.raises(AuthenticationError, match=r"has expired \(2020-01-01.*ask the provider"):
        connection.shares()
    with pytest.raises(AuthenticationError, match=r"has expired"):
        connection.scan("a.b.c").to_arrow()


def test_a_token_that_expires_within_a_week_is_warned_of() -> None:
    soon = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    with pytest.warns(UserWarning, match=r"expires in 3\.0 days: ask the provider"):
        lakeport.connect(profile_text(NOWHERE, expirationTime=soon))


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(UnavailableError, match=r"connection refused: nothing is listening at 127\.0\.0\.1:1"):
        lakeport.connect(profile_text(NOWHERE)).shares()


def test_a_server_that_fails_is_told_after_as_many_tries_as_were_asked_for() -> None:
    with scripted(lambda _: reply(status=503)) as server:
        with pytest.raises(UnavailableError, match=r"503.*after 1 attempt"):
            lakeport.connect(profile_text(server.url), retries=0).shares()
        assert len(server.asked) == 1


def test_a_wrong_token_is_told_with_what_to_do(shared: Shared) -> None:
    with pytest.raises(AuthenticationError, match=r"ask the provider for a new profile") as failed:
        lakeport.connect(profile_text(shared.server.endpoint, "wrong-token")).shares()
    assert "wrong-token" not in str(failed.value)


def test_options_that_there_are_not_are_refused() -> None:
    with pytest.raises(TypeError, match="speed"):
        lakeport.connect(profile_text(NOWHERE), speed=1)
    with pytest.raises(ValueError, match="'url' or 'dir'"):
        lakeport.connect(profile_text(NOWHERE), access="files")


def test_a_proxy_is_asked_in_place_of_the_server(shared: Shared) -> None:
    with pytest.raises(UnavailableError, match="the proxy for"):
        lakeport.connect(shared.profile, proxy="http://127.0.0.1:1", retries=0).shares()


def test_the_client_is_loaded_only_when_it_is_needed(tmp_path: Path) -> None:
    code = "import sys, lakeport; print([m for m in sys.modules if m.startswith(('lakeport.client', 'urllib3'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
