"""`lakeport sync`: what it prints, and how it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeport import tables
from lakeport.cli.app import run
from tests.client.syncing import Provider, providing
from tests.interop.shareable import orders
from tests.rows import texts_of


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    with providing(tmp_path / "provider", "orders") as found:
        tables.create(found.path("orders"), orders(0, 10))
        yield found


def test_a_copy_is_made_brought_up_to_date_verified_and_vacuumed(
    provider: Provider, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dest = str(tmp_path / "copy")
    assert run(["sync", provider.target("orders"), dest, "--dry-run"]) == 0
    assert "would fetch 1 file" in capsys.readouterr().out
    assert run(["sync", provider.target("orders"), dest]) == 0
    assert "is at version 0, which is version 0 of the shared table" in capsys.readouterr().out
    assert run(["sync", provider.target("orders"), dest]) == 0
    assert "nothing to do" in capsys.readouterr().out
    tables.append(provider.path("orders"), orders(10, 20))
    assert run(["sync", provider.target("orders"), dest, "--verify", "--vacuum"]) == 0
    out = capsys.readouterr().out
    assert "verified: 2 files, identical to the shared ones" in out
    assert "deleted 0 files" in out
    assert texts_of(dest) == texts_of(provider.path("orders"))


def test_machines_get_one_object(provider: Provider, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dest = str(tmp_path / "copy")
    assert run(["sync", provider.target("orders"), dest, "--json", "--verify"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["dest"] == dest
    expected = {"version": 0, "source_version": 0, "commits": 1, "fetched_files": 1, "verified_files": 1}
    assert document | expected == document


def test_a_copy_that_was_changed_is_refused_in_the_words_of_the_command_line(
    provider: Provider, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dest = str(tmp_path / "copy")
    run(["sync", provider.target("orders"), dest])
    tables.delete(dest, "id = 3")
    assert run(["sync", provider.target("orders"), dest]) == 1
    assert "pass --full" in capsys.readouterr().err
    assert run(["sync", provider.target("orders"), dest, "--full"]) == 0
    assert texts_of(dest) == texts_of(provider.path("orders"))


def test_a_copy_from_a_directory_is_not_verified_by_urls(
    provider: Provider, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dest = tmp_path / "copy"
    run(["sync", provider.target("orders"), str(dest)])
    commit = dest / "_delta_log" / f"{0:020}.json"
    version = '"lakeport.sync.version":"0"'
    assert version in commit.read_text()
    commit.write_text(commit.read_text().replace(version, f'{version},"lakeport.sync.access":"dir"'))
    commit.with_suffix(".crc").unlink()
    assert run(["sync", provider.target("orders"), str(dest), "--verify", "--access", "url"]) == 1
    assert "made in the other access mode: pass --access dir to verify it" in capsys.readouterr().err


def test_a_target_that_is_not_shared_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sync", str(tmp_path), str(tmp_path / "copy")]) == 2
    assert "profile#share.schema.table" in capsys.readouterr().err
