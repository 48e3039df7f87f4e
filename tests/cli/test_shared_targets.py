"""The commands that read take `PROFILE#share.schema.table`, and do with it what they do with a path."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run
from tests.client.shares import NOWHERE, Shared, profile_text, sharing_tables

ORDERS = "sales.eu.orders"


@pytest.mark.parametrize(
    "arguments",
    [
        ["count"],
        ["count", "--where", "amount > 50", "--version", "0"],
        ["head", "--json", "--columns", "id,city", "--where", "city = 'Oslo'"],
        ["changes", "--json", "--start-version", "0"],
        ["changes", "--json", "--start-version", "1", "--columns", "id"],
    ],
    ids=" ".join,
)
def test_a_shared_table_reads_like_the_table_itself(lakeport: Run, shared: Shared, arguments: list[str]) -> None:
    command, *options = arguments
    own = lakeport(command, shared.folder / "orders", *options)
    result = lakeport(command, shared.target(ORDERS), *options)
    assert (result.code, result.err) == (0, "")
    assert sorted(result.out.splitlines()) == sorted(own.out.splitlines())


def test_the_columns_of_a_shared_table_are_shown_with_its_name(lakeport: Run, shared: Shared) -> None:
    out = lakeport("schema", shared.target(ORDERS)).out
    assert "sales.eu.orders at version 1\n" in out
    assert "delta.enableChangeDataFeed = true" in out
    (document,) = lakeport("schema", shared.target(ORDERS), "--json").documents
    (own,) = lakeport("schema", shared.folder / "orders", "--json").documents
    assert document | {"table": "", "timestamp": ""} == own | {"table": "", "timestamp": ""}
    assert document["table"] == ORDERS


def test_the_files_of_a_shared_table_are_listed_without_urls(lakeport: Run, shared: Shared) -> None:
    documents = lakeport("files", shared.target(ORDERS), "--json").documents
    own = lakeport("files", shared.folder / "orders", "--json").documents
    assert sorted(d["size"] for d in documents) == sorted(d["size"] for d in own)
    assert all(d["path"].startswith("delta-sharing:///") and "?" not in d["path"] for d in documents)


def test_a_shared_table_is_exported(lakeport: Run, shared: Shared, tmp_path: Path) -> None:
    result = lakeport("export", shared.target(ORDERS), tmp_path / "x.parquet", "--json", "--where", "id < 3")
    assert result.documents[0]["rows"] == 2
    assert sorted(pq.read_table(tmp_path / "x.parquet")["id"].to_pylist()) == [1, 2]


def test_the_history_of_a_shared_table_is_not_told(lakeport: Run, shared: Shared) -> None:
    result = lakeport("history", shared.target(ORDERS))
    assert result.code == 1
    assert "read its changes instead" in result.err


def test_failures_are_told_in_one_line(lakeport: Run, shared: Shared, tmp_path: Path) -> None:
    expired, wrong = tmp_path / "expired.share", tmp_path / "wrong.share"
    expired.write_text(profile_text(NOWHERE, expirationTime="2020-01-01T00:00:00Z"))
    wrong.write_text(profile_text(shared.server.endpoint, "wrong-token"))
    failures = {
        shared.target("sales.eu.ordres"): "did you mean sales.eu.orders?",
        f"{expired}#{ORDERS}": "has expired (2020-01-01T00:00:00Z): ask the provider for a new profile",
        f"{wrong}#{ORDERS}": "the token is wrong or has expired: ask the provider for a new profile",
        f"{tmp_path}/nowhere.share#{ORDERS}": "no profile at",
    }
    for target, words in failures.items():
        for command in ("head", "count", "schema"):
            result = lakeport(command, target)
            assert (result.code, result.out) == (1, "")
            assert words in result.err
            assert len(result.err.splitlines()) == 1
            assert "wrong-token" not in result.err


def test_what_is_wrong_with_the_call_is_told_as_for_a_path(lakeport: Run, shared: Shared) -> None:
    assert lakeport("head", shared.target(ORDERS), "--columns", "nope").code == 2
    assert lakeport("head", shared.target(ORDERS), "--where", "amount >").code == 2
    assert lakeport("head", shared.target(ORDERS), "--version", "7").code == 1


def test_a_token_that_expires_soon_is_warned_of(lakeport: Run, shared: Shared, tmp_path: Path) -> None:
    soon = tmp_path / "soon.share"
    expires = (datetime.now(UTC) + timedelta(days=2, minutes=1)).isoformat()
    soon.write_text(profile_text(shared.server.endpoint, expirationTime=expires))
    with pytest.warns(UserWarning, match=r"expires in 2\.0 days"):
        assert lakeport("count", f"{soon}#{ORDERS}").out == "4\n"
    command = [sys.executable, "-m", "lakeport", "count", f"{soon}#{ORDERS}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "4\n"
    assert done.stderr.startswith("lakeport: warning: the token for http://127.0.0.1")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["head", ORDERS, "--json"],
        ["count", ORDERS, "--where", "amount > 50"],
        ["changes", ORDERS, "--json", "--start-version", "0"],
        ["sql", f"select * from {ORDERS} order by id", "--json"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_is_in_the_cache_is_not_fetched_again(lakeport: Run, tmp_path: Path, arguments: list[str]) -> None:
    with sharing_tables(tmp_path) as shared:
        command, what, *options = arguments
        what = what if command == "sql" else shared.target(what)
        options += ["--profile", str(shared.profile)] if command == "sql" else []
        first = lakeport(command, what, *options, "--cache", tmp_path / "kept")
        assert (first.code, first.err) == (0, "")
        assert first.out
        assert list((tmp_path / "kept").rglob("*.range"))
        for file in (shared.folder / "orders").rglob("*.parquet"):
            file.unlink()
        assert lakeport(command, what, *options, "--cache", tmp_path / "kept") == first
        assert lakeport(command, what, *options).code == 1


def test_a_way_that_is_not_offered_is_told_in_the_words_of_the_command_line(lakeport: Run, tmp_path: Path) -> None:
    with sharing_tables(tmp_path, access_modes=("dir",)) as shared:
        for command in (
            ["count"],
            ["schema"],
            ["changes", "--start-version", "0"],
            ["export", str(tmp_path / "out.csv")],
        ):
            result = lakeport(command[0], shared.target(ORDERS), *command[1:], "--access", "url")
            assert result.code == 1
            assert "by its directory only: read it with --access dir" in result.err
        sql = lakeport("sql", f"select * from {ORDERS}", "--profile", shared.profile, "--access", "url")
        assert (sql.code, "--access dir" in sql.err) == (1, True)


def test_options_of_shared_tables_are_refused_where_they_mean_nothing(
    lakeport: Run, shared: Shared, tmp_path: Path
) -> None:
    wrong = {
        ("count", shared.folder / "orders", "--access", "dir"): "access and cache apply only to shared tables",
        ("head", shared.folder / "orders", "--cache", tmp_path): "access and cache apply only to shared tables",
        ("count", shared.target(ORDERS), "--access", "files"): "'--access'",
        ("count", shared.target(ORDERS), "--access", "dir", "--cache", tmp_path): "drop --cache or --access dir",
    }
    for arguments, said in wrong.items():
        result = lakeport(*arguments)
        assert result.code == 2
        assert said in result.err
