"""What follows a commit helps those who read; it never takes the commit back."""

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from lakeport.engine import engine_over
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.errors import StorageError
from lakeport.kernel.engine import Engine
from lakeport.kernel.maintenance import finish_commit
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import create_table, update_table
from lakeport.testing.builder import TableBuilder, struct
from lakeport.testing.counting import CountingStorage
from tests.kernel.writing import add, latest, removing, values

ROOT = "memory://table"
SCHEMA = struct(id="long")


def create(engine: Engine, **properties: str) -> Snapshot:
    transaction = create_table(engine, ROOT, SCHEMA, (), properties)
    finish_commit(engine, transaction.commit())
    return latest(engine, ROOT)


def append(engine: Engine, *ids: int) -> int:
    snapshot = latest(engine, ROOT)
    committed = add(update_table(snapshot, "WRITE"), {"id": list(ids)}).commit()
    finish_commit(engine, committed, snapshot)
    return committed.version


def log_names(engine: Engine, ending: str) -> list[int]:
    files = engine.storage.list_from(f"{ROOT}/_delta_log", "0")
    names = [file.path.rpartition("/")[2] for file in files]
    return [int(name.partition(".")[0]) for name in names if name.endswith(ending)]


def checksum(engine: Engine, version: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.storage.read(f"{ROOT}/_delta_log/{version:020d}.crc"))
    return found


def test_every_version_has_a_checksum_with_its_totals() -> None:
    engine = engine_over(MemoryStorage())
    create(engine)
    append(engine, 1, 2)
    append(engine, 3)
    assert log_names(engine, ".crc") == [0, 1, 2]
    assert [checksum(engine, version)["numFiles"] for version in range(3)] == [0, 1, 2]
    removing(snapshot := latest(engine, ROOT)).commit()
    assert latest(engine, ROOT).version == 3
    assert checksum(engine, 2)["tableSizeBytes"] == sum(f.size for f in snapshot.scan_builder().build().files())


def test_a_version_after_one_without_a_checksum_has_none_until_the_next_checkpoint() -> None:
    engine = engine_over(MemoryStorage())
    create(engine, **{"delta.checkpointInterval": "4"})
    append(engine, 1)
    engine.storage.delete([f"{ROOT}/_delta_log/{1:020d}.crc"])
    for number in range(4):
        append(engine, number)
    assert log_names(engine, ".crc") == [0, 4, 5]
    assert checksum(engine, 5)["numFiles"] == 5


def test_a_checkpoint_is_written_at_the_tables_interval() -> None:
    engine = engine_over(MemoryStorage())
    create(engine, **{"delta.checkpointInterval": "3"})
    for number in range(7):
        append(engine, number)
    assert log_names(engine, ".checkpoint.parquet") == [3, 6]
    assert json.loads(engine.storage.read(f"{ROOT}/_delta_log/_last_checkpoint"))["version"] == 6
    assert values(latest(engine, ROOT)) == list(range(7))


def test_a_commit_does_not_read_more_of_the_log_the_longer_it_is() -> None:
    storage = CountingStorage()
    engine = engine_over(storage)
    create(engine, **{"delta.checkpointInterval": "1000"})
    counts = []
    for number in range(30):
        storage.opened.clear()
        append(engine, number)
        counts.append(len([name for name in storage.opened if name.endswith(".json")]))
    assert counts[-1] <= max(counts[:3])


class FullStorage(CountingStorage):
    """Takes commits and data, but nothing else."""

    full = False

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        if self.full and not path.endswith(".json"):
            raise StorageError("the disk is full", path=path)
        super().write(path, data, overwrite=overwrite)

    def delete(self, paths: Sequence[str]) -> None:
        raise StorageError("the disk is broken", path=paths[0] if paths else "")


def test_what_fails_after_a_commit_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    storage = FullStorage()
    engine = engine_over(storage)
    create(engine, **{"delta.checkpointInterval": "2"})
    storage.full = True
    with caplog.at_level(logging.WARNING):
        for number in range(4):
            append(engine, number)
    assert values(latest(engine, ROOT)) == [0, 1, 2, 3]
    assert log_names(engine, ".checkpoint.parquet") == []
    assert "version 2 is committed, but maintenance after it failed" in caplog.text


def test_a_property_that_another_writer_set_wrongly_does_not_fail_a_commit(caplog: pytest.LogCaptureFixture) -> None:
    engine = engine_over(MemoryStorage())
    TableBuilder(engine, ROOT, SCHEMA, properties={"delta.checkpointInterval": "often"}).create()
    with caplog.at_level(logging.WARNING):
        assert append(engine, 1) == 1
    assert "delta.checkpointInterval is 'often'" in caplog.text
