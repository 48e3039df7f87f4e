"""Random updates and deletes in files of many writers: rows and statistics of the ordinary way, for every reader."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lakeport
from lakeport import tables
from lakeport.kernel.scan import ScanFile
from lakeport.tables.rows import column_editing
from tests.engine.column_editing.edits import read_by_all, same
from tests.engine.column_editing.writers import WRITERS, rows

ASSIGNMENTS = [
    {"n": "n + 1"},
    {"n": "NULL", "day": "DATE'1999-01-01'"},
    {"x": "x * 2"},
    {"x": "CAST('NaN' AS DOUBLE)"},
    {"text": "upper(text)", "price": "price + 1"},
    {"text": "kind", "kind": "text"},
    {"moment": "TIMESTAMP'2001-01-01 00:00:00Z'", "raw": "NULL"},
    {"price": "NULL", "flag": "NOT flag"},
    {"nothing": "id"},
    {"s.a": "id", "items": "NULL"},
    {"s": "NULL", "id": "id"},
]
CONDITIONS = ["id % 100 = 7", "id < 50", "id BETWEEN 1000 AND 1100", "n IS NULL", "text LIKE '%7%'", "id = 2999", None]
DELETES = [
    *(f"id % {number} = 7" for number in (3, 100)),
    *(f"id < {number}" for number in (50, 1100)),
    "id BETWEEN 1000 AND 1100",
    "id = 2999",
    "text LIKE '%7%'",
    "x IS NULL OR x > 1",
]
ALWAYS, NEVER = 0, 1 << 40
"""The least size of a file to edit."""


def file_of(path: str) -> ScanFile:
    (file,) = lakeport.scan(path).files()
    return file


def table_of(writer: str, path: Path) -> str:
    """A table of one file, by a writer."""
    tables.create(str(path), rows())
    file, log = file_of(str(path)), path / "_delta_log" / f"{0:020}.json"
    WRITERS[writer](path.parent / f"{path.name}.parquet")
    (path.parent / f"{path.name}.parquet").rename(file.path)
    log.write_text(log.read_text().replace(f'"size":{file.size}', f'"size":{Path(file.path).stat().st_size}'))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    return str(path)


def edit_from(least: int, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(column_editing, "_SMALL_FILE", least)
    patch.setattr(column_editing, "_SMALL_CHUNK", 0)


def update(path: str, change: tuple[dict[str, Any], str | None], least: int, patch: pytest.MonkeyPatch) -> None:
    edit_from(least, patch)
    tables.update(path, *change)


def delete(path: str, condition: str, least: int, patch: pytest.MonkeyPatch) -> None:
    edit_from(least, patch)
    tables.delete(path, condition)


def check_same(edited: str, rewritten: str, change: object) -> None:
    """Both tables have the same rows for every reader, and the same statistics."""
    wanted = lakeport.scan(rewritten).to_arrow().sort_by("id")
    for reader, found in read_by_all(Path(file_of(edited).path)):
        assert same(found.sort_by("id"), wanted), (reader, change)
    assert json.loads(file_of(edited).stats or "") == json.loads(file_of(rewritten).stats or ""), change


@pytest.mark.parametrize("writer", WRITERS)
def test_random_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str) -> None:
    edited, rewritten, random = (
        table_of(writer, tmp_path / "edited"),
        table_of(writer, tmp_path / "plain"),
        Random(writer),
    )
    for _ in range(4):
        change = random.choice(ASSIGNMENTS), random.choice(CONDITIONS)
        update(edited, change, ALWAYS, monkeypatch)
        update(rewritten, change, NEVER, monkeypatch)
        check_same(edited, rewritten, change)


@pytest.mark.parametrize("writer", WRITERS)
def test_random_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str) -> None:
    edited, rewritten = (table_of(writer, tmp_path / name) for name in ("edited", "plain"))
    for condition in Random(writer).sample(DELETES, 4):
        delete(edited, condition, ALWAYS, monkeypatch)
        delete(rewritten, condition, NEVER, monkeypatch)
        check_same(edited, rewritten, condition)
