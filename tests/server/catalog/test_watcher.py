"""A catalog that changes while it is served."""

import asyncio
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TextIO

import pytest
import yaml

from lakeport.errors import CatalogError
from lakeport.server.catalog.model import CatalogContent
from lakeport.server.catalog.watcher import CatalogWatcher
from lakeport.server.catalog.yaml_source import YamlSource
from lakeport.server.http.refusals import Refusal
from tests.server.running import FixedSource, Running, recipient, running, sharing, wait_until

GOOD = "authorization: {{bearerToken: x}}\nshares: [{{name: {}}}]"


def names(watcher: CatalogWatcher) -> list[str]:
    return [share.name for share in watcher.catalog.content.shares]


def looked(watcher: CatalogWatcher) -> CatalogWatcher:
    """A changed file is taken over when the next look finds it unchanged."""
    watcher.look()
    watcher.look()
    return watcher


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
    looked(watcher)
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
    looked(watcher)
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
    looked(watcher)
    assert isinstance(watcher.problem, IsADirectoryError)
    path.rmdir()
    path.write_text(GOOD.format("the-second"))
    looked(watcher)
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


def test_a_half_written_file_is_not_taken_over(path: Path) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text("authorization: {bearerToken: x}")
    watcher.look()
    path.write_text(GOOD.format("the-whole"))
    watcher.look()
    assert names(watcher) == ["first"]
    watcher.look()
    assert names(watcher) == ["the-whole"]


def test_a_half_written_file_is_not_taken_over_when_a_reload_is_asked_for(path: Path) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text("authorization: {bearerToken: x}")
    watcher.reload()
    watcher.look()
    path.write_text(GOOD.format("the-whole"))
    watcher.look()
    assert names(watcher) == ["first"]
    watcher.look()
    assert names(watcher) == ["the-whole"]


def test_a_reload_loads_what_has_not_changed(path: Path) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    before = watcher.catalog
    watcher.reload()
    watcher.look()
    assert watcher.catalog is not before
    reloaded = watcher.catalog
    watcher.look()
    assert watcher.catalog is reloaded


def test_looks_lie_apart_however_often_a_reload_is_asked_for(path: Path) -> None:
    """A file that is the same at both ends of an interval is not being written."""

    class Timed(YamlSource):
        times: list[float] = []  # noqa: RUF012 - one instance

        def generation(self) -> object:
            self.times.append(time.monotonic())
            return super().generation()

    async def follow() -> None:
        watcher = CatalogWatcher(Timed(path), interval_seconds=0.1)
        task = asyncio.create_task(watcher.run())
        while len(Timed.times) < 5:
            watcher.reload()
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(follow())
    assert min(later - earlier for earlier, later in pairwise(Timed.times)) > 0.09


def test_a_file_that_changes_while_it_is_read_is_not_taken_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    read = yaml.load

    def read_too_early(file: TextIO, loader: type[yaml.SafeLoader]) -> object:
        document = read(file, loader)
        path.write_text(GOOD.format("the-whole"))
        return document

    path.write_text(GOOD.format("a-half"))
    monkeypatch.setattr("lakeport.server.catalog.yaml_file.yaml.load", read_too_early)
    looked(watcher)
    monkeypatch.undo()
    assert names(watcher) == ["first"]
    assert "changed while it was read" in str(watcher.problem)
    looked(watcher)
    assert (names(watcher), watcher.problem) == (["the-whole"], None)


RECIPIENTS = "shares: [{name: first}]\nrecipients: [{name: ann, bearerToken: hers, grants: [first]}]"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("shares: [{name: first}]", "recipients is missing"),
        ("shares: [{name: first}]\nrecipient: [{name: ann, bearerToken: hers}]", "unknown keys: recipient"),
        ("shares: [{name: first}]\nauthorization: {bearerToken: x}", "recipients is missing"),
        ("shares: [{name: first}]\nanonymous: true", "recipients is missing"),
    ],
)
def test_a_catalog_that_loses_its_recipients_is_refused(
    path: Path, text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text(RECIPIENTS)
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text(text)
    looked(watcher)
    assert reason in str(watcher.problem)
    assert reason in caplog.text
    assert watcher.catalog.anonymous is None
    assert watcher.catalog.authenticate("hers", 0) is not None


def test_recipients_can_be_removed_on_purpose(path: Path) -> None:
    path.write_text(RECIPIENTS)
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text("shares: [{name: first}]\nrecipients: []")
    looked(watcher)
    assert watcher.problem is None
    assert watcher.catalog.authenticate("hers", 0) is None


def test_a_running_server_never_becomes_anonymous(path: Path) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text("shares: [{name: first}]\nanonymous: true")
    looked(watcher)
    assert watcher.catalog.anonymous is None
    assert "restart the server" in str(watcher.problem)
    assert CatalogWatcher(YamlSource(path)).catalog.anonymous is not None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("recipents: []", "unknown key recipents"),
        ("recipients: [{name: ann, bearerToken: hers, ipAllowlist: [10.1.2.3]}]", "recipients[0].ipAllowlist"),
        ("recipients: [{name: ann, bearerToken: hers, ipAllowList: }]", "recipients[0].ipAllowList is empty"),
        ("recipients: [{name: ann, bearerToken: hers, ipAllowList: []}]", "remove it to allow all addresses"),
        ("recipients:", "recipients is missing"),
        ("recipients: ~", "recipients is missing"),
        ("recipients: []\nrecipients: []", "duplicate key recipients"),
        ("x: &a [*a]", "server.yaml"),
        ('recipients: [{name: "b\\ud800", bearerToken: hers}]', "server.yaml"),
    ],
)
def test_a_changed_file_opens_and_removes_nothing_by_mistake(path: Path, change: str, told: str) -> None:
    kept = "recipients: [{name: ann, bearerToken: hers, ipAllowList: [10.1.2.3]}]"
    path.write_text(f"shares: [{{name: first}}]\n{kept}")
    watcher = CatalogWatcher(YamlSource(path))
    before = watcher.catalog
    path.write_text("\n".join(["shares: [{name: second}]", *([] if "recipients" in change else [kept]), change]))
    looked(watcher)
    assert watcher.catalog is before
    assert told in str(watcher.problem)
    assert watcher.answers


def test_authorization_is_not_lost_by_a_reload(path: Path) -> None:
    path.write_text("shares: [{name: first}]\nauthorization: {bearerToken: one}\nrecipients: []")
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text("shares: [{name: first}]\nrecipients: []")
    looked(watcher)
    assert "authorization is missing" in str(watcher.problem)
    assert watcher.catalog.authenticate("one", 0) is not None


def test_keys_that_were_not_known_at_the_start_keep_from_no_reload(path: Path) -> None:
    path.write_text(GOOD.format("the-first") + "\ncolour: blue")
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text(GOOD.format("the-second") + "\ncolour: blue")
    looked(watcher)
    assert names(watcher) == ["the-second"]


def test_a_refused_file_stays_refused_when_it_was_gone_for_a_moment(path: Path) -> None:
    watcher = CatalogWatcher(YamlSource(path))
    path.write_text("shares: nonsense")
    looked(watcher)
    refused = watcher.problem
    assert isinstance(refused, CatalogError)
    moved = path.rename(path.with_name("moved"))
    watcher.look()
    assert not isinstance(watcher.problem, CatalogError)
    moved.rename(path)
    looked(watcher)
    assert watcher.problem is refused


class Hanging(FixedSource):
    """A source that does not answer while `answering` is cleared."""

    def __init__(self) -> None:
        super().__init__(sharing({"a.b.c": "/nowhere"}))
        self.answering = threading.Event()
        self.answering.set()

    def generation(self) -> object:
        self.answering.wait()
        return super().generation()


@contextmanager
def hanging(max_age: float) -> Iterator[tuple[Running, Hanging]]:
    source = Hanging()
    with running(source=source, catalog_max_age_seconds=max_age) as server:
        try:
            source.answering.clear()
            yield server, source
        finally:
            source.answering.set()


def test_a_catalog_that_has_not_answered_for_too_long_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with hanging(2) as (server, source):
        assert server.get("shares").status_code == 200
        wait_until(lambda: server.get("shares").status_code == 503)
        refused = server.get("shares")
        assert (refused.json()["errorCode"], refused.headers["Retry-After"]) == ("TEMPORARILY_UNAVAILABLE", "5")
        assert server.get("/health").status_code == 200
        wait_until(lambda: "requests are rejected until it does" in caplog.text)
        age = re.search(r"^lakeport_catalog_age_seconds (\S+)$", server.get("/metrics").text, re.MULTILINE)
        assert age is not None
        assert float(age[1]) > 2
        source.content = sharing({"a.b.c": "/nowhere"}, recipient("bob", "token-of-bob"))
        source.answering.set()
        wait_until(lambda: server.get("shares").status_code == 401)  # revoked meanwhile
        wait_until(lambda: "the catalog responds again" in caplog.text)


def test_a_server_whose_catalog_hangs_can_end() -> None:
    before = server_threads()
    with hanging(30) as (server, _):
        assert server.get("shares").status_code == 200
        assert len(server_threads() - before) == 1
    assert server_threads() <= before


def server_threads() -> set[threading.Thread]:
    """Those of all servers in this process; some serve all tests."""
    return {thread for thread in threading.enumerate() if thread.name == "server-under-test"}


def test_silence_shows_in_readiness_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    watcher = CatalogWatcher(Hanging(), max_age_seconds=30, now=lambda: now[0])
    for seconds, answers, served in ((9, True, True), (11, False, True), (29, False, True), (31, False, False)):
        now[0] = seconds
        watcher.report_age()
        assert watcher.answers is answers
        if served:
            watcher.current()
        else:
            with pytest.raises(Refusal) as refused:
                watcher.current()
            assert refused.value.status == 503
    assert [record.getMessage() for record in caplog.records] == [
        "the catalog has not responded for 11 s: serving its last state",
        "the catalog has not responded for 31 s: requests are rejected until it does",
    ]
    watcher.look()
    watcher.report_age()
    assert watcher.answers
    watcher.current()
    assert caplog.records[-1].getMessage() == "the catalog responds again"


def test_without_a_limit_the_last_catalog_is_served_for_ever() -> None:
    now = [0.0]
    watcher = CatalogWatcher(Hanging(), max_age_seconds=0, now=lambda: now[0])
    now[0] = 1e9
    assert watcher.current() is watcher.catalog


def test_content_that_makes_no_sense_does_not_age(path: Path) -> None:
    now = [0.0]
    watcher = CatalogWatcher(YamlSource(path), max_age_seconds=30, now=lambda: now[0])
    path.write_text("shares: [")
    for now[0] in range(0, 100, 10):
        watcher.look()
    assert isinstance(watcher.problem, CatalogError)
    assert watcher.current() is watcher.catalog
