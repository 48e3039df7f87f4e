"""The real tables by name, and the choices of them that tests are parametrised with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport.engine import default_engine
from lakeport.errors import CorruptTableError, LakeportError, MissingFileError, TableNotFoundError
from lakeport.frame import Changes
from lakeport.kernel.engine import Engine
from lakeport.kernel.snapshot import Table
from lakeport.testing.builder import read
from tests.acceptance import odd_tables
from tests.conftest import SHARED

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
ENGINE = default_engine()
Entry = dict[str, Any]

ERRORS: dict[str, type[LakeportError] | tuple[type[LakeportError], ...]] = {
    "InvalidTable": CorruptTableError,
    "TableNotFound": TableNotFoundError,
    "InvalidTable/TableNotFound": (CorruptTableError, TableNotFoundError),
    "FileNotFound (deletion vector)": MissingFileError,
}
"""What Lakeport raises for the errors that manifests name."""

# The manifest accepts either reading or refusing these tables; Lakeport refuses them.
REFUSED = {"krs--table-with-geo": "geospatial"}
# Its checkpoint has a column that no commit adds, so its commits alone are another table.
ODD_CHECKPOINT = "krs--parquet_row_group_skipping"
LARGE = 50_000
"""Rows. Python does not compare tables with more of them."""


def _load(root: Path) -> Iterator[Entry]:
    """The entries of the manifest below a folder, with absolute paths; none without the folder."""
    manifest = root / "tables" / "MANIFEST.json" if root != CORPUS else root / "MANIFEST.json"
    if not manifest.is_file():
        return
    for entry in json.loads(manifest.read_text(encoding="utf-8"))["tables"]:
        entry["path"] = str(root / "tables" / entry["path"])
        expectations = [entry["expected"], *entry.get("expected_versions", {}).values()]
        for expectation in [*expectations, *(entry.get("expected_cdf") or ())]:
            if expectation.get("parquet"):
                expectation["parquet"] = str(root / expectation["parquet"])
        yield entry


MANIFEST = [*_load(CORPUS), *odd_tables.entries(), *_load(SHARED / "tables")]
BY_NAME = {entry["name"]: entry for entry in MANIFEST}
NAMES = list(BY_NAME)

_ONLY_SHARED = {"marks": pytest.mark.shared, "id": "only in ../shared"}


def chosen(keep: Callable[[Entry], Any]) -> pytest.MarkDecorator:
    """Parametrises a test with the names of some tables."""
    return named([entry["name"] for entry in MANIFEST if keep(entry)])


def named(names: list[str]) -> pytest.MarkDecorator:
    """Parametrises a test with names of tables; skips it if all of them are in ``../shared``, and that is not here."""
    return pytest.mark.parametrize("name", names or [pytest.param("", **_ONLY_SHARED)])


def has_rows(entry: Entry) -> bool:
    return entry["expected"]["kind"] == "rows" and entry["name"] not in REFUSED


def is_shareable(entry: Entry) -> bool:
    """Whether it has rows, and opens without its catalog."""
    return has_rows(entry) and "needs" not in entry["expected"]


def is_planned(entry: Entry) -> bool:
    """Whether its log can be read."""
    missing_vectors = "FileNotFound" in entry["expected"].get("error_class", "")
    readable = entry["expected"]["kind"] in ("rows", "files_only") or missing_vectors
    return bool(readable and entry.get("state") and entry["name"] not in REFUSED)


def has_variants(entry: Entry) -> bool:
    return any("variant" in kind for kind in entry.get("types", ()))


SHAREABLE = [entry["name"] for entry in MANIFEST if is_shareable(entry)]


def path_of(name: str) -> str:
    return str(BY_NAME[name]["path"])


def shared_name(name: str) -> str:
    """The name under which servers of the tests share the table: names in the protocol have no dots in them."""
    return f"tables.{name.partition('--')[0]}.{name.replace('.', '_')}"


def table_of(name: str, path: str | None = None, engine: Engine = ENGINE) -> Table:
    needs = BY_NAME[name]["expected"].get("needs")
    catalog = (
        {"max_catalog_version": needs["max_catalog_version"], "staged_commits": needs["log_tail"]} if needs else {}
    )
    return Table.for_path(engine, path or path_of(name), **catalog)


@cache
def latest_rows(name: str) -> pa.Table:
    return read(table_of(name).latest_snapshot())


def change_cases(kind: str) -> list[Any]:
    """The ranges of changes whose expectation has something of this kind."""
    cases = [(entry["name"], case) for entry in MANIFEST for case in entry.get("expected_cdf") or ()]
    params = [pytest.param(*case, id=range_id(*case)) for case in cases if case[1].get(kind) is not None]
    return params or [pytest.param("", {}, **_ONLY_SHARED)]


def range_id(name: str, case: Entry) -> str:
    return f"{name.partition('--')[2]}-{case['start']}-{case['end']}"


def changes_of(name: str, case: Entry) -> Changes:
    return lakeport.scan(path_of(name), engine=ENGINE).changes(case["start"], case["end"])
