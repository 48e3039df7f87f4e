"""A commit becomes the next version once, whatever the storage answers; its times and row ids go on from others'."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakeport.engine import ComposedEngine, engine_over, memory_engine
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.errors import AccessDeniedError, CommitConflictError, CommitUnknownError, StorageError
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import create_table, update_table
from lakeport.testing.builder import struct
from lakeport.testing.counting import CountingStorage
from tests.kernel.writing import actions_of, add, append, latest, new_table, only, removing, values
from tests.properties import TRACKING

ROOT = "memory://table"
SCHEMA = struct(id="long")
LOST = StorageError("the connection was lost", path="x")


class UnreliableStorage(CountingStorage):
    """Files in memory; what happens to the next commits is told beforehand."""

    def __init__(self) -> None:
        super().__init__(MemoryStorage())
        self.to_do: Iterator[Callable[[str, bytes], None]] = iter(())
        self.unreadable = False
        self.attempts = 0

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        if not path.endswith(".json"):
            super().write(path, data, overwrite=overwrite)
            return
        self.attempts += 1
        behave = next(self.to_do, self.succeed)
        behave(path, data)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self.unreadable and path.endswith(".json"):
            raise StorageError("the connection was lost", path=path)
        return super().read(path, start, length)

    def succeed(self, path: str, data: bytes) -> None:
        super().write(path, data)

    def fail(self, path: str, data: bytes) -> None:
        """Before anything is written."""
        raise LOST

    def write_and_fail(self, path: str, data: bytes) -> None:
        super().write(path, data)
        raise LOST

    def write_twice(self, path: str, data: bytes) -> None:
        """What a client does that repeats a request whose answer was lost."""
        super().write(path, data)
        super().write(path, data)

    def let_another_win(self, path: str, data: bytes) -> None:
        append(latest(memory_engine_over(self), ROOT), {"id": [99]})
        raise LOST

    def go_down(self, path: str, data: bytes) -> None:
        self.unreadable = True
        raise LOST

    def write_twice_and_go_down(self, path: str, data: bytes) -> None:
        super().write(path, data)
        self.unreadable = True
        raise FileExistsError(path)

    def hide(self, path: str, data: bytes) -> None:
        """What a store does while another writer's file is on its way."""
        raise FileExistsError(path)

    def refuse(self, path: str, data: bytes) -> None:
        raise AccessDeniedError("permission denied", path=path)


def memory_engine_over(storage: UnreliableStorage) -> ComposedEngine:
    """An engine on the same files that nothing happens to."""
    return engine_over(storage._storage)


@pytest.fixture
def storage() -> UnreliableStorage:
    return UnreliableStorage()


@pytest.fixture
def table(storage: UnreliableStorage) -> Snapshot:
    snapshot = new_table(engine_over(storage), ROOT, SCHEMA, rows={"id": [1]})
    storage.attempts = 0
    return snapshot


def append_once(storage: UnreliableStorage, table: Snapshot, *behaviour: Callable[[str, bytes], None]) -> int:
    transaction = add(update_table(table, "WRITE"), {"id": [2]})
    storage.to_do = iter(behaviour)
    return transaction.commit().version


@pytest.mark.parametrize(
    ("behaviour", "attempts"),
    [(["write_and_fail"], 1), (["write_twice"], 1), (["fail", "fail"], 3), (["fail", "write_twice"], 2)],
    ids=["landed although it failed", "said to exist already", "did not land", "landed late"],
)
def test_a_commit_is_known_as_our_own_or_written_again(
    storage: UnreliableStorage, table: Snapshot, behaviour: list[str], attempts: int
) -> None:
    assert append_once(storage, table, *(getattr(storage, name) for name in behaviour)) == 1
    assert storage.attempts == attempts
    assert values(latest(table.engine, ROOT)) == [1, 2]


def test_a_failure_while_another_writer_wins_puts_the_commit_on_top(
    storage: UnreliableStorage, table: Snapshot
) -> None:
    assert append_once(storage, table, storage.let_another_win) == 2
    assert values(latest(table.engine, ROOT)) == [1, 2, 99]


def test_a_failure_while_another_writer_wins_is_checked_for_conflicts(
    storage: UnreliableStorage, table: Snapshot
) -> None:
    transaction = removing(table)

    def let_another_delete(path: str, data: bytes) -> None:
        removing(latest(memory_engine_over(storage), ROOT)).commit()
        raise LOST

    storage.to_do = iter([let_another_delete])
    with pytest.raises(CommitConflictError):
        transaction.commit()


def test_a_version_that_the_storage_has_but_does_not_show_yet_is_waited_for(
    storage: UnreliableStorage, table: Snapshot
) -> None:
    def show(path: str, data: bytes) -> None:
        append(latest(memory_engine_over(storage), ROOT), {"id": [99]})
        raise FileExistsError(path)

    assert append_once(storage, table, *[storage.hide] * 20, show) == 2
    assert values(latest(table.engine, ROOT)) == [1, 2, 99]


def test_a_version_that_the_storage_has_but_never_shows_is_unknown(storage: UnreliableStorage, table: Snapshot) -> None:
    with pytest.raises(CommitUnknownError, match="reports that the version exists, but does not return it"):
        append_once(storage, table, *[storage.hide] * 2000)


def test_a_listing_that_lacks_a_version_which_is_there_does_no_harm(
    storage: UnreliableStorage, table: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = add(update_table(table, "WRITE"), {"id": [2]})
    for number in (10, 11, 12):
        append(latest(table.engine, ROOT), {"id": [number]})

    def list_from(directory: str, first_name: str) -> Iterator[FileStatus]:
        return (f for f in storage._storage.list_from(directory, first_name) if f"{2:020d}" not in f.path)

    monkeypatch.setattr(storage, "list_from", list_from)
    monkeypatch.setattr(storage, "scans_directories", lambda directory: False)
    assert late.commit().version == 4
    monkeypatch.undo()
    assert values(latest(table.engine, ROOT)) == [1, 2, 10, 11, 12]


def test_a_storage_that_keeps_failing_leaves_the_commit_unknown(storage: UnreliableStorage, table: Snapshot) -> None:
    with pytest.raises(CommitUnknownError, match="the connection was lost") as caught:
        append_once(storage, table, *[storage.fail] * 10)
    assert caught.value.version == 1
    assert "check the table's history before repeating" in str(caught.value)
    assert storage.attempts == 3
    assert latest(table.engine, ROOT).version == 0


@pytest.mark.parametrize("behaviour", ["go_down", "write_twice_and_go_down"])
def test_a_storage_that_cannot_be_asked_leaves_the_commit_unknown(
    storage: UnreliableStorage, table: Snapshot, behaviour: str
) -> None:
    with pytest.raises(CommitUnknownError, match="cannot confirm whether it exists") as caught:
        append_once(storage, table, getattr(storage, behaviour))
    assert caught.value.version == 1
    assert storage.attempts == 1, "what is unknown is never written again"
    storage.unreadable = False
    assert values(latest(table.engine, ROOT)) == ([1] if behaviour == "go_down" else [1, 2])


def test_a_storage_that_refuses_says_so(storage: UnreliableStorage, table: Snapshot) -> None:
    with pytest.raises(AccessDeniedError):
        append_once(storage, table, storage.refuse)
    assert storage.attempts == 1


def test_a_refusal_after_a_failure_leaves_the_commit_unknown(storage: UnreliableStorage, table: Snapshot) -> None:
    with pytest.raises(CommitUnknownError):
        append_once(storage, table, storage.fail, storage.refuse, storage.refuse)


# What it says of itself


def test_a_commit_says_what_it_was() -> None:
    engine = engine_over(MemoryStorage(), lambda: 1_000)
    snapshot = new_table(engine, ROOT, SCHEMA, rows={"id": [1]})
    transaction = add(update_table(snapshot, "WRITE"), {"id": [2]})
    transaction.parameters |= {"mode": "Append", "partitionBy": []}
    transaction.metrics |= {"numFiles": 1}
    committed = transaction.commit()
    first = actions_of(engine, ROOT, 1)[0]
    assert first["commitInfo"] == committed.info
    assert committed.info["txnId"]
    assert (
        committed.info.items()
        >= {
            "timestamp": 1_000,
            "operation": "WRITE",
            "readVersion": 0,
            "isBlindAppend": True,
            "isolationLevel": "WriteSerializable",
        }.items()
    )
    assert committed.info["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert committed.info["operationMetrics"] == {"numFiles": "1"}
    assert committed.info["engineInfo"].startswith("Lakeport/")
    assert "inCommitTimestamp" not in committed.info


def test_only_what_reads_and_removes_nothing_is_a_blind_append() -> None:
    snapshot = new_table(memory_engine(), ROOT, SCHEMA, rows={"id": [1]})
    reading = update_table(snapshot, "WRITE")
    reading.plan(snapshot.scan_builder().build())
    assert add(reading, {"id": [2]}).commit().info["isBlindAppend"] is False
    assert append(latest(snapshot.engine, ROOT), {"id": [2]}).info["isBlindAppend"] is True
    assert removing(latest(snapshot.engine, ROOT)).commit().info["isBlindAppend"] is False


# In-commit timestamps

STAMPS = {"delta.enableInCommitTimestamps": "true"}


class Clock:
    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def stamps(engine: Engine) -> list[int | None]:
    latest_version = latest(engine, ROOT).version
    lines = [actions_of(engine, ROOT, version)[0] for version in range(latest_version + 1)]
    return [line["commitInfo"].get("inCommitTimestamp") for line in lines]


def test_in_commit_timestamps_grow_even_if_the_clock_stands_still_or_goes_back() -> None:
    clock = Clock(5_000)
    engine = engine_over(MemoryStorage(), clock)
    snapshot = new_table(engine, ROOT, SCHEMA, properties=STAMPS)
    for now in (5_000, 100, 6_000):
        clock.now = now
        append(latest(engine, ROOT), {"id": [1]})
    assert stamps(engine) == [5_000, 5_001, 5_002, 6_000]
    assert "delta.inCommitTimestampEnablementVersion" not in snapshot.properties
    assert latest(engine, ROOT).timestamp == 6_000
    assert Table.for_path(engine, ROOT).version_at_timestamp(5_001) == 1


def test_in_commit_timestamps_grow_through_a_rebase() -> None:
    clock = Clock(5_000)
    engine = engine_over(MemoryStorage(), clock)
    snapshot = new_table(engine, ROOT, SCHEMA, properties=STAMPS)
    late = add(update_table(snapshot, "WRITE"), {"id": [1]})
    clock.now = 9_000
    append(snapshot, {"id": [2]})
    append(latest(engine, ROOT), {"id": [3]})
    clock.now = 5_500
    late.commit()
    assert stamps(engine) == [5_000, 9_000, 9_001, 9_002]


def test_in_commit_timestamps_that_begin_later_say_since_when() -> None:
    clock = Clock(4_000_000_000_000)  # later than the modification times of the files in memory
    engine = engine_over(MemoryStorage(), clock)
    snapshot = new_table(engine, ROOT, SCHEMA)
    transaction = update_table(snapshot, "SET TBLPROPERTIES")
    transaction.definition = transaction.definition.with_properties(STAMPS)
    append(snapshot, {"id": [1]})
    append(latest(engine, ROOT), {"id": [2]})
    transaction.commit()
    after = latest(engine, ROOT)
    assert stamps(engine) == [None, None, None, 4_000_000_000_000]
    assert after.properties["delta.inCommitTimestampEnablementVersion"] == "3"
    assert after.properties["delta.inCommitTimestampEnablementTimestamp"] == "4000000000000"
    assert "inCommitTimestamp" in (after.protocol.writer_features or ())
    append(after, {"id": [3]})
    assert stamps(engine)[-1] == 4_000_000_000_001
    table = Table.for_path(engine, ROOT)
    assert table.version_at_timestamp(4_000_000_000_000) == 3
    assert latest(engine, ROOT).properties == after.properties


def test_the_commit_info_comes_first_where_it_has_the_time() -> None:
    engine = memory_engine()
    new_table(engine, ROOT, SCHEMA, properties=STAMPS, rows={"id": [1]})
    assert list(actions_of(engine, ROOT, 0)[0]) == ["commitInfo"]


# Row tracking


def row_ids(engine: Engine) -> dict[int, list[tuple[int, int, int]]]:
    """Of each version: the base row id, the commit version and the number of rows of its files."""
    found = {}
    for version in range(latest(engine, ROOT).version + 1):
        adds = only(actions_of(engine, ROOT, version), "add")
        found[version] = [(a["baseRowId"], a["defaultRowCommitVersion"], records(a)) for a in adds]
    return found


def records(action: dict[str, Any]) -> int:
    return int(json.loads(action["stats"])["numRecords"])


def mark(snapshot: Snapshot) -> int:
    return int(json.loads(snapshot.domain_metadata["delta.rowTracking"])["rowIdHighWaterMark"])


def test_rows_get_ids_above_those_that_others_took_meanwhile() -> None:
    engine = memory_engine()
    snapshot = new_table(engine, ROOT, SCHEMA, properties=TRACKING, rows={"id": [1, 2, 3]})
    assert mark(snapshot) == 2
    late = add(update_table(snapshot, "WRITE"), {"id": [7, 8]})
    append(snapshot, {"id": [4, 5, 6, 7]})
    late.commit()
    assert row_ids(engine) == {0: [(0, 0, 3)], 1: [(3, 1, 4)], 2: [(7, 2, 2)]}
    assert mark(latest(engine, ROOT)) == 8


def test_a_commit_that_adds_no_row_keeps_the_mark() -> None:
    engine = memory_engine()
    snapshot = new_table(engine, ROOT, SCHEMA, properties=TRACKING, rows={"id": [1, 2, 3]})
    late = removing(snapshot)
    late.commit()
    assert only(actions_of(engine, ROOT, 1), "domainMetadata") == []
    append(latest(engine, ROOT), {"id": [1]})
    assert row_ids(engine)[2] == [(3, 2, 1)]


def test_many_files_of_a_commit_share_the_ids_without_overlap() -> None:
    engine = memory_engine()
    schema = struct(id="long", day="string")
    rows = {"id": [1, 2, 3, 4, 5, 6], "day": ["a", "b", "a", "c", "a", "b"]}
    new_table(engine, ROOT, schema, ["day"], TRACKING, rows)
    taken = sorted(row for base, _, count in row_ids(engine)[0] for row in range(base, base + count))
    assert taken == list(range(6))


def test_creating_a_table_again_is_refused(storage: UnreliableStorage, table: Snapshot) -> None:
    with pytest.raises(CommitConflictError):
        create_table(table.engine, ROOT, SCHEMA).commit()
