"""`verify` through DuckDB, in a process that has it with its extensions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import iceberg, tables
from lakeport.errors import ConversionError
from tests.conftest import ROOT
from tests.iceberg.changing import FORMATS
from tests.iceberg.readers import duckdb_python
from tests.properties import VECTORS


def verify(table: str) -> dict[str, Any]:
    packages = next(duckdb_python().parent.parent.glob("lib/python*/site-packages"))
    done = subprocess.run(
        [sys.executable, "-m", "lakeport", "verify", table, "--duckdb", "--json"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(packages)])},
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["is_equal"] else 1), done.stderr
    return found


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "it's a table")
    rows = pa.table({"id": range(50), "g": [i % 3 for i in range(50)], "x": [[float("nan")]] * 50})
    tables.create(path, rows, partition_by=["g"], properties=VECTORS)
    tables.append(path, rows)
    tables.delete(path, "id % 7 = 2")
    return path


@FORMATS
def test_a_mirror_whose_rows_duckdb_finds_is_equal(table: str, version: int) -> None:
    iceberg.convert(table, format_version=version)
    found = verify(table)
    assert found["is_equal"], found["differences"]
    assert found["rows_compared"]


@FORMATS
def test_rows_that_duckdb_does_not_find_are_told(table: str, version: int) -> None:
    iceberg.convert(table, format_version=version)
    last = Path(table, "_delta_log", f"{2:020d}.json")
    kept = [line for line in last.read_text().splitlines() if "commitInfo" in line]
    last.write_text("\n".join(kept))  # so nothing is deleted
    told = [difference["what"] for difference in verify(table)["differences"]]
    assert any(what.startswith("in DuckDB, the mirror lacks the row {'id': ") for what in told), told


def test_duckdb_without_its_extension_says_what_to_install(table: str) -> None:
    iceberg.convert(table)
    with pytest.raises(ConversionError, match=r"cannot load its extension .* duckdb-extension-iceberg=="):
        iceberg.verify(table, duckdb=True)
