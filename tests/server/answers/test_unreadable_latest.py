"""Tables whose latest version the server cannot read: older versions are served all the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import CorruptTableError, LakeportError, SharingError, UnsupportedFeatureError
from lakeport.kernel.log import format_time
from lakeport.server.answers import opened_tables as snapshots
from lakeport.server.answers.opened_tables import CachedTable
from lakeport.sharing.models import ChangesRequest
from lakeport.testing.builder import TableBuilder, protocol
from lakeport.testing.counting import CountingStorage
from tests.server.asking import FEED, built, changes, ids, lines, pages, pretended, query, service, table_request
from tests.server.running import running, sharing

UNKNOWN = protocol(features=["notYetInvented"])
MINUTE = 60
CREATED = 1_700_000_000


def damage(table: TableBuilder) -> None:
    table.write(table.log_file(f"{2:020d}.json"), '{"add": {"path"')


def invent(table: TableBuilder) -> None:
    table.commit({"commitInfo": {"inCommitTimestamp": (CREATED + 2 * MINUTE) * 1000}}, UNKNOWN)


UNREADABLE: list[Any] = [
    pytest.param(invent, UnsupportedFeatureError, id="unknown feature"),
    pytest.param(damage, CorruptTableError, id="damaged commit"),
]


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Versions 0 and 1 can be read; they were made a minute apart."""
    table = built(tmp_path / "t", properties=FEED, protocol=protocol(reader=1, writer=4))
    table.create(pretended("0-0"), pretended("0-1"))
    table.commit(pretended("1-0"))
    return table


def dated(table: TableBuilder) -> None:
    for number, file in enumerate(sorted(Path(table.root, "_delta_log").iterdir())):
        os.utime(file, (CREATED + number * MINUTE,) * 2)


@pytest.mark.parametrize(("spoil", "error"), UNREADABLE)
def test_older_versions_are_served(table: TableBuilder, spoil: Any, error: type[LakeportError]) -> None:
    spoil(table)
    to, by = service(), table_request(table.root)
    assert len(ids(lines(query(to, by, version=1)))) == 3
    assert len(ids(lines(query(to, by, version=0)))) == 2
    assert to.metadata(by, 0).version == 0
    assert [len(ids(page)) for page in pages(to, by, 1, version=0)] == [1, 1]
    assert len(ids(lines(query(to, by, starting_version=0, ending_version=1)))) == 3
    assert len(ids(lines(changes(to, by, 1, ending_version=1)))) == 1
    for refused in ({}, {"version": 2}, {"starting_version": 0}):
        with pytest.raises(error):
            query(to, by, **refused)
    with pytest.raises(error):
        changes(to, by, 0)
    with pytest.raises(error):
        to.version(by)
    with pytest.raises(SharingError, match="later than the latest version, 2"):
        query(to, by, starting_version=3)


@pytest.mark.parametrize(("spoil", "error"), UNREADABLE)
@pytest.mark.parametrize("in_commit", [False, True])
def test_older_versions_are_served_by_the_time_at_which_they_were_the_latest(
    tmp_path: Path, spoil: Any, error: type[LakeportError], in_commit: bool
) -> None:
    stamped = {"delta.enableInCommitTimestamps": "true"} if in_commit else {}
    table = built(tmp_path / "t", properties=FEED | stamped, protocol=protocol(reader=1, writer=4))
    infos = [{"commitInfo": {"inCommitTimestamp": (CREATED + number * MINUTE) * 1000}} for number in range(2)]
    table.create(infos[0], pretended("0-0")).commit(infos[1], pretended("1-0"))
    spoil(table)
    dated(table)
    to, by = service(), table_request(table.root)
    first, second, third = (format_time((CREATED + number * MINUTE) * 1000) for number in range(3))
    assert query(to, by, timestamp=first).version == to.metadata(by, timestamp=first).version == 0
    assert query(to, by, timestamp=second).version == to.metadata(by, timestamp=second).version == 1
    assert (to.version(by, first), to.version(by, second)) == (0, 1)
    in_time = ChangesRequest(starting_timestamp=first, ending_timestamp=second)
    assert len(ids(lines(to.changes(by, in_time)))) == 2
    with pytest.raises(error):
        query(to, by, timestamp=third)
    with pytest.raises(error):
        to.changes(by, ChangesRequest(starting_timestamp=first))


@pytest.mark.parametrize("spoil", [invent, damage])
def test_versions_that_were_read_before_stay_at_hand_and_are_those_of_the_table(
    table: TableBuilder, spoil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_VERIFY_SECONDS", 0.0)
    storage = CountingStorage(Storage())
    cached = CachedTable(engine_over(storage), table.root, stale_is_fine=False)
    latest = cached.latest()
    spoil(table)
    assert cached.at_version(1) is latest
    older = cached.at_version(0)
    assert cached.at_version(0) is older
    log = table.log_file(f"{0:020d}.json")
    os.utime(log, (2_000_000_000, 2_000_000_000))  # as if another table had taken its place
    assert cached.at_version(0) is not older


def test_the_table_is_whole_again_once_its_latest_version_can_be_read(table: TableBuilder) -> None:
    damage(table)
    cached = CachedTable(engine_over(Storage()), table.root, stale_is_fine=False)
    assert cached.at_version(1).version == 1
    table.commit(pretended("2-0"))
    assert cached.latest().version == 2
    assert cached.at_version(2) is cached.latest()


def test_recipients_are_not_told_what_the_provider_has_to_do(
    table: TableBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    invent(table)
    with running(sharing({"sales.eu.orders": table.root}, history_shared=True)) as server:
        path = "shares/sales/schemas/eu/tables/orders"
        answer = server.post(f"{path}/query")
        assert server.post(f"{path}/query", {"version": 1}).status_code == 200
    assert answer.status_code == 400
    assert answer.json()["errorCode"] == "UNSUPPORTED_OPERATION"
    assert "notYetInvented" in answer.json()["message"]
    assert "ask the provider" in answer.json()["message"]
    assert "upgrade" not in answer.json()["message"]
    assert "upgrade Lakeport" in caplog.text
