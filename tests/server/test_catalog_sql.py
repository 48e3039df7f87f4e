"""A catalog in SQLite, and URLs of databases."""

import stat
from pathlib import Path

import pytest

from lakeport.errors import CatalogError, StorageError
from lakeport.server.catalog.database import Database
from lakeport.server.catalog.sql_source import SqlSource
from tests.server.database_contract import DatabaseContract


class TestSqlite(DatabaseContract):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/catalog.db"


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    source = SqlSource(f"sqlite:///{tmp_path}/c.db")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    source.close()
    assert modes == {0o600}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("lakeport.db", "URL like sqlite:///path"),
        ("", "URL like sqlite:///path"),
        ("mysql://host/x", "SQLite or PostgreSQL, not in mysql"),
        ("sqlite://", "kept in a file"),
        ("sqlite:///:memory:", "kept in a file"),
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
