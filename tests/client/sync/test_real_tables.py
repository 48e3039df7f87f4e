"""Real tables of other implementations, copied through a server: at once, and version by version as they grew."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import lakeport
from lakeport.errors import LakeportError
from tests.acceptance.comparing import assert_expected
from tests.acceptance.real_tables import (
    BY_NAME,
    ODD_CHECKPOINT,
    SHAREABLE,
    chosen,
    is_shareable,
    named,
    path_of,
    shared_name,
)
from tests.client.syncing import providing
from tests.rows import texts_of

_VERSION = re.compile(r"(\d{20})\.")


@chosen(is_shareable)
def test_a_copy_has_the_rows_that_a_right_reader_gives(real_tables_profile: Path, name: str, tmp_path: Path) -> None:
    result = lakeport.sync(f"{real_tables_profile}#{shared_name(name)}", str(tmp_path / "copy"), verify=True)
    assert result.source_version == BY_NAME[name]["state"]["version"]
    assert_expected(name, lakeport.scan(str(tmp_path / "copy")).to_arrow(), BY_NAME[name]["expected"])
    assert lakeport.sync(f"{real_tables_profile}#{shared_name(name)}", str(tmp_path / "copy")).commits == 0


def grown(name: str) -> list[int]:
    """The versions of a table whose commits are all there, but for those from a checkpoint."""
    commits = {int(found[1]) for file in log_of(name) if (found := re.fullmatch(r"(\d{20})\.json", file.name))}
    latest = BY_NAME[name]["state"]["version"]
    versions = [version for version in range(latest + 1) if version in commits]
    return versions if versions == list(range(latest + 1)) else []


def log_of(name: str) -> list[Path]:
    return sorted((Path(path_of(name)) / "_delta_log").iterdir())


# A deletion vector at an absolute path is not where the growing table is.
NOT_GROWN = {ODD_CHECKPOINT, "odd--vector-by-absolute-path"}
GROWN = [name for name in SHAREABLE if len(grown(name)) > 1 and name not in NOT_GROWN]


@named(GROWN)
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
        assert texts_of(dest, commit.version) == texts_of(provided, shared)


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
