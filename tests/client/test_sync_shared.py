"""Real tables of other implementations, copied through a server: at once, and version by version as they grew."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakeport
from lakeport.errors import LakeportError
from tests.client.syncing import providing, rows
from tests.interop.shareable import SHAREABLE, address
from tests.server.running import TOKEN, running, sharing
from tests.test_acceptance import BY_NAME, ODD_CHECKPOINT, assert_expected, path_of

pytestmark = pytest.mark.shared

_VERSION = re.compile(r"(\d{20})\.")
_NO_TABLES = [""]
"""Where the shared folder is missing, a fixture says so."""


@pytest.fixture(scope="module")
def profile(shared_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    content = sharing({address(name): path_of(name) for name in SHAREABLE}, history_shared=True)
    with running(content) as server:
        path = tmp_path_factory.mktemp("profile") / "ann.share"
        document = {"shareCredentialsVersion": 1, "endpoint": server.endpoint, "bearerToken": TOKEN}
        path.write_text(json.dumps(document))
        yield path


@pytest.mark.parametrize("name", SHAREABLE or _NO_TABLES)
def test_a_copy_has_the_rows_that_a_right_reader_gives(profile: Path, name: str, tmp_path: Path) -> None:
    result = lakeport.sync(f"{profile}#{address(name)}", str(tmp_path / "copy"), verify=True)
    assert result.source_version == BY_NAME[name]["state"]["version"]
    assert_expected(name, lakeport.scan(str(tmp_path / "copy")).to_arrow(), BY_NAME[name]["expected"])
    assert lakeport.sync(f"{profile}#{address(name)}", str(tmp_path / "copy")).commits == 0


def grown(name: str) -> list[int]:
    """The versions of a table whose commits are all there, but for those from a checkpoint."""
    commits = {int(found[1]) for file in log_of(name) if (found := re.fullmatch(r"(\d{20})\.json", file.name))}
    latest = BY_NAME[name]["state"]["version"]
    versions = [version for version in range(latest + 1) if version in commits]
    return versions if versions == list(range(latest + 1)) else []


def log_of(name: str) -> list[Path]:
    return sorted((Path(path_of(name)) / "_delta_log").iterdir())


GROWN = [name for name in SHAREABLE if len(grown(name)) > 1 and name != ODD_CHECKPOINT]


@pytest.mark.parametrize("name", GROWN or _NO_TABLES)
@pytest.mark.usefixtures("shared_tables")
def test_a_copy_of_a_table_that_grows_has_the_rows_of_every_version(name: str, tmp_path: Path) -> None:
    """The table is shared as it was at its first, at a middle and at its last version."""
    provided, dest = tmp_path / "provider" / "table", tmp_path / "copy"
    shutil.copytree(path_of(name), provided, ignore=shutil.ignore_patterns("_delta_log"))
    versions = grown(name)
    with providing(tmp_path / "provider", "table") as provider:
        for shown in sorted({versions[0], versions[len(versions) // 2], versions[-1]}):
            publish(name, provided, shown)
            try:
                lakeport.scan(str(provided)).to_arrow()
            except LakeportError:
                continue  # such a version cannot be read by anybody
            assert provider.sync("table", dest, verify=True).source_version == shown
    for commit in lakeport.scan(str(dest)).history():
        shared = int(commit.info["operationParameters"]["version"])
        assert rows(dest, commit.version) == rows(provided, shared)


def publish(name: str, provided: Path, version: int) -> None:
    """Brings the log up to a version."""
    log = provided / "_delta_log"
    log.mkdir(exist_ok=True)
    for file in log_of(name):
        found = _VERSION.match(file.name)
        if file.is_dir():
            shutil.copytree(file, log / file.name, dirs_exist_ok=True)
        elif found and int(found[1]) <= version and ".compacted." not in file.name:
            shutil.copy2(file, log / file.name)
