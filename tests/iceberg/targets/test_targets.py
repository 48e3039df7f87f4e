"""Targets: a version of a mirror has one author, and readers find the latest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lakeport.engine import ComposedEngine, memory_engine
from lakeport.errors import CorruptTableError
from lakeport.iceberg.table.metadata import new_metadata
from lakeport.iceberg.table.schema import Json
from lakeport.iceberg.targets.target import CommitLostError, PathTarget, Published

ROOT = "memory:///mirror"
HINT = f"{ROOT}/metadata/version-hint.text"


@pytest.fixture
def engine() -> ComposedEngine:
    return memory_engine()


def note(text: str) -> list[Json]:
    return [{"action": "set-properties", "updates": {"note": text}}]


def publish(target: PathTarget, base: Published | None, text: str) -> Published:
    start = new_metadata(target.location, 2) if base is None else base.metadata
    return target.publish(base, start, note(text))


def test_nothing_is_published_at_first(engine: ComposedEngine) -> None:
    assert PathTarget(engine, ROOT).load() is None


def test_versions_follow_each_other(engine: ComposedEngine) -> None:
    target = PathTarget(engine, ROOT)
    first = publish(target, None, "a")
    second = publish(target, first, "b")
    found = target.load()
    assert found == second
    assert second.path == f"{target.location}/metadata/v2.metadata.json"
    assert second.metadata["metadata-log"][0]["metadata-file"] == first.path
    assert engine.storage.read(HINT) == b"2"


def test_of_several_authors_of_a_version_one_wins(engine: ComposedEngine) -> None:
    target = PathTarget(engine, ROOT)
    base = publish(target, None, "a")

    def attempt(text: str) -> str | None:
        try:
            return str(publish(PathTarget(engine, ROOT), base, text).metadata["properties"]["note"])
        except CommitLostError:
            return None

    with ThreadPoolExecutor(8) as pool:
        won = [text for text in pool.map(attempt, map(str, range(8))) if text is not None]
    found = target.load()
    assert found is not None
    assert won == [found.metadata["properties"]["note"]]


@pytest.mark.parametrize("hint", [None, b"1", b"7", b"what"], ids=["none", "old", "ahead", "nonsense"])
def test_a_hint_that_is_wrong_is_put_right(engine: ComposedEngine, hint: bytes | None) -> None:
    target = PathTarget(engine, ROOT)
    latest = publish(target, publish(target, publish(target, None, "a"), "b"), "c")
    if hint is None:
        engine.storage.delete([HINT])
    else:
        engine.storage.write(HINT, hint, overwrite=True)
    assert target.load() == latest
    assert engine.storage.read(HINT) == b"3"


def test_metadata_that_cannot_be_read_is_named(engine: ComposedEngine) -> None:
    target = PathTarget(engine, ROOT)
    engine.storage.write(f"{ROOT}/metadata/v1.metadata.json", b"{")
    with pytest.raises(CorruptTableError, match=r"v1\.metadata\.json"):
        target.load()
