"""A catalog in PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from lakeport.errors import StorageError
from lakeport.server.catalog.admin import ShareAdmin
from lakeport.server.catalog.database import Database
from lakeport.server.catalog.postgresql import ARGUMENTS
from lakeport.server.catalog.sql_source import SqlSource
from lakeport.server.catalog.watcher import CatalogWatcher
from tests.interop.postgresql import Postgresql, postgresql_server
from tests.server.catalog.database_contract import DatabaseContract


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Postgresql]:
    with postgresql_server() as server:
        yield server


class TestPostgresql(DatabaseContract):
    @pytest.fixture
    def url(self, postgresql: Postgresql) -> str:
        return postgresql.new_database()


def test_a_database_that_was_restarted_is_followed_again(
    postgresql: Postgresql, caplog: pytest.LogCaptureFixture
) -> None:
    source = SqlSource(postgresql.new_database())
    watcher = CatalogWatcher(source)
    postgresql.stop()
    for _ in range(2):
        watcher.look()
    assert isinstance(watcher.problem, StorageError)
    assert len(caplog.records) == 1
    postgresql.start()
    watcher.look()
    assert watcher.problem is None
    source.close()


def test_a_database_that_hangs_is_given_up_and_followed_again(
    postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.server.catalog.postgresql._ANSWER_SECONDS", 1)
    monkeypatch.setitem(ARGUMENTS, "connect_timeout", 2)
    with closing(SqlSource(postgresql.new_database())) as source:
        watcher = CatalogWatcher(source)
        with postgresql.hung():
            watcher.look()
            assert isinstance(watcher.problem, StorageError)
            assert "timeout" in str(watcher.problem)
        watcher.look()
        assert watcher.problem is None


def test_a_backend_that_hangs_is_replaced(postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.server.catalog.postgresql._ANSWER_SECONDS", 1)
    with closing(SqlSource(postgresql.new_database())) as source:
        watcher = CatalogWatcher(source)
        with postgresql.hung(whole=False):
            watcher.look()
            assert watcher.problem is None


def test_two_servers_on_one_database_see_the_same_catalog(postgresql: Postgresql) -> None:
    url = postgresql.new_database()
    sources = [SqlSource(url), SqlSource(url)]
    watchers = [CatalogWatcher(source) for source in sources]
    database = Database(url)
    ShareAdmin(database).add_share("sales")
    for watcher in watchers:
        watcher.look()
    assert sources[0].signing_key() == sources[1].signing_key()
    assert watchers[0].catalog.content == watchers[1].catalog.content
    assert [share.name for share in watchers[0].catalog.content.shares] == ["sales"]
    for opened in (*sources, database):
        opened.close()


def test_a_database_that_does_not_exist_is_told(postgresql: Postgresql) -> None:
    url = postgresql.new_database()
    with pytest.raises(StorageError, match="does not exist"):
        Database(f"{url}_and_more")
