"""A catalog in SQLite, and URLs of databases."""

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from lakeport.errors import CatalogError, StorageError
from lakeport.server.catalog.database import Database
from lakeport.server.catalog.recipient_admin import RecipientAdmin
from lakeport.server.catalog.sql_source import SqlSource
from lakeport.server.catalog.watcher import CatalogWatcher
from tests.server.catalog.database_contract import NOW, DatabaseContract

T = TypeVar("T")


class TestSqlite(DatabaseContract):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/catalog.db"


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    source = SqlSource(f"sqlite:///{tmp_path}/c.db")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    source.close()
    assert modes == {0o600}


def test_a_server_follows_the_file_that_takes_the_place_of_another(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/c.db"
    with closing(SqlSource(url)) as source:
        token = _changed(url, lambda recipients: recipients.add("ann", NOW))
        watcher = CatalogWatcher(source)
        _copy(tmp_path / "c.db", tmp_path / "copy.db")
        _changed(url, lambda recipients: recipients.add("bob", NOW))
        watcher.look()
        _changed(f"sqlite:///{tmp_path}/copy.db", lambda recipients: recipients.revoke("ann"))
        for rest in ("-wal", "-shm"):  # whoever restores a copy has to remove them
            (tmp_path / f"c.db{rest}").unlink()
        (tmp_path / "copy.db").rename(tmp_path / "c.db")  # of the same generation as the one that was there
        watcher.look()
        assert watcher.problem is None
        assert [recipient.name for recipient in watcher.catalog.content.recipients] == ["ann"]
        assert watcher.catalog.authenticate(token, NOW) is None


def test_a_file_that_is_gone_does_not_answer_and_is_not_made_anew(tmp_path: Path) -> None:
    with closing(SqlSource(f"sqlite:///{tmp_path}/c.db")) as source:
        watcher = CatalogWatcher(source)
        (tmp_path / "c.db").rename(tmp_path / "elsewhere.db")
        watcher.look()
        assert not watcher.answers
        assert "the catalog is gone" in str(watcher.problem)
        assert not (tmp_path / "c.db").exists()
        (tmp_path / "elsewhere.db").rename(tmp_path / "c.db")
        watcher.look()
        assert watcher.problem is None


def _changed(url: str, change: Callable[[RecipientAdmin], T]) -> T:
    """Makes a change as a command does."""
    with closing(Database(url)) as database:
        return change(RecipientAdmin(database))


def _copy(file: Path, target: Path) -> None:
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("lakeport.db", "URL like sqlite:///path"),
        ("", "URL like sqlite:///path"),
        ("mysql://host/x", "SQLite or PostgreSQL, not in mysql"),
        ("sqlite://", "a SQLite catalog must be a file"),
        ("sqlite:///:memory:", "a SQLite catalog must be a file"),
    ],
)
def test_a_url_that_names_no_database_is_refused(url: str, message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        Database(url)


def test_a_file_that_is_not_there_is_made_only_on_demand(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="there is no catalog"):
        Database(f"sqlite:///{tmp_path}/c.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_text("something else, and long enough to be looked at" * 100)
    with pytest.raises(StorageError, match="not a database"):
        Database(f"sqlite:///{tmp_path}/c.db")
    with pytest.raises(StorageError, match="No such file or directory"):
        Database(f"sqlite:///{tmp_path}/nowhere/c.db")


def test_a_server_that_does_not_answer_is_told_without_the_password() -> None:
    with pytest.raises(StorageError) as caught:
        Database("postgresql://ann:hunter2@127.0.0.1:1/x")
    assert "127.0.0.1" in str(caught.value)
    assert "hunter2" not in str(caught.value)
