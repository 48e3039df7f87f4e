"""A catalog that changes while it is served."""

import asyncio
import logging
import os
import threading
from pathlib import Path

import pytest

from lakeport.errors import CatalogError
from lakeport.server.catalog.model import CatalogContent
from lakeport.server.catalog.watcher import CatalogWatcher
from lakeport.server.catalog.yaml_source import YamlSource

GOOD = "authorization: {{bearerToken: x}}\nshares: [{{name: {}}}]"


def names(watcher: CatalogWatcher) -> list[str]:
    return [share.name for share in watcher.catalog.content.shares]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "server.yaml"
    path.write_text(GOOD.format("first"))
    return path


def test_a_catalog_that_makes_no_sense_is_refused_at_the_start(path: Path) -> None:
    path.write_text(GOOD.format("a b"))
    with pytest.raises(CatalogError):
        CatalogWatcher(YamlSource(path))


def test_a_change_is_taken_over(path: Path) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    before = watcher.catalog
    watcher.look()
    assert watcher.catalog is before
    path.write_text(GOOD.format("the-second"))
    watcher.look()
    assert names(watcher) == ["the-second"]


def test_a_broken_change_is_logged_once_and_the_old_catalog_stays(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text("shares: [")
    for _ in range(3):
        watcher.look()
    assert names(watcher) == ["first"]
    assert isinstance(watcher.problem, CatalogError)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    path.write_text(GOOD.format("mended"))
    watcher.look()
    assert (names(watcher), watcher.problem) == (["mended"], None)


def test_a_file_that_is_gone_for_a_while_is_awaited(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    aside = path.with_suffix(".bak")
    os.rename(path, aside)
    for _ in range(2):
        watcher.look()
    assert names(watcher) == ["first"]
    assert isinstance(watcher.problem, FileNotFoundError)
    os.rename(aside, path)
    watcher.look()
    assert watcher.problem is None
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_source_that_fails_while_loading_is_asked_again(path: Path) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    path.unlink()
    path.mkdir()  # it has a generation, but cannot be read
    watcher.look()
    assert isinstance(watcher.problem, IsADirectoryError)
    path.rmdir()
    path.write_text(GOOD.format("the-second"))
    watcher.look()
    assert (names(watcher), watcher.problem) == (["the-second"], None)


def test_the_source_is_followed_without_blocking_the_loop(path: Path) -> None:
    class Slow(YamlSource):
        threads: set[str] = set()  # noqa: RUF012 - one instance

        def load(self) -> CatalogContent:
            self.threads.add(threading.current_thread().name)
            return super().load()

    async def follow() -> None:
        watcher = CatalogWatcher(Slow(path), interval_seconds=0.01)
        Slow.threads.clear()
        task = asyncio.create_task(watcher.run())
        path.write_text(GOOD.format("the-second"))
        for _ in range(500):
            await asyncio.sleep(0.01)
            if names(watcher) == ["the-second"]:
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert names(watcher) == ["the-second"]

    asyncio.run(follow())
    assert Slow.threads
    assert threading.main_thread().name not in Slow.threads
