"""Which files live: keys, paths, deletion vectors, checkpoints."""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.engine import default_engine, memory_engine
from lakeport.errors import CorruptTableError, MissingFileError
from lakeport.kernel.log import FileColumns, LogReplay
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.testing.builder import TableBuilder, protocol, remove, rows, struct

ROOT = "memory:///t"
Checkpointed = Callable[[TableBuilder], object]

WITH_CHECKPOINT = pytest.mark.parametrize(
    "checkpoint",
    [lambda table: None, lambda table: table.checkpoint(), lambda table: table.checkpoint(form="v2-json-sidecars")],
    ids=["commits", "classic", "v2"],
)


def new_table(**options: Any) -> TableBuilder:
    which = protocol(features=["deletionVectors", "v2Checkpoint"])
    return TableBuilder(memory_engine(), ROOT, struct(id="long"), protocol=which, **options)


def paths(table: TableBuilder, version: int | None = None) -> list[str]:
    return sorted(f.path.removeprefix(f"{ROOT}/") for f in table.snapshot(version).scan_builder().build().files())


@WITH_CHECKPOINT
def test_the_newest_action_on_a_file_decides(checkpoint: Checkpointed) -> None:
    table = new_table()
    a, b = table.add({"id": [1]}, name="a"), table.add({"id": [2]}, name="b")
    table.create(a, b).commit(remove(a))
    checkpoint(table)
    assert paths(table) == ["b"]
    table.commit(a, remove(b))
    assert paths(table) == ["a"]
    assert rows(table.snapshot()) == [(1,)]


@WITH_CHECKPOINT
def test_the_key_of_a_file_is_its_path_and_its_deletion_vector(checkpoint: Checkpointed) -> None:
    table = new_table()
    add = table.add({"id": [0, 1, 2, 3]}, name="a")
    table.create(add)
    checkpoint(table)
    first_removed, first = table.delete(add, [1])
    table.commit(first, first_removed)
    assert rows(table.snapshot()) == [(0,), (2,), (3,)]
    checkpoint(table)
    second = {"add": add["add"] | {"deletionVector": table.deletion_vector([1, 3])}}
    table.commit(remove(first), second)
    assert rows(table.snapshot()) == [(0,), (2,)]
    assert rows(table.snapshot(1)) == [(0,), (2,), (3,)]
    table.commit(remove(second), add)
    assert rows(table.snapshot()) == [(0,), (1,), (2,), (3,)]


def test_a_remove_with_another_deletion_vector_leaves_a_file_alone() -> None:
    table = new_table()
    add = table.add({"id": [0, 1]}, name="a")
    _, deleted = table.delete(add, [0])
    table.create(deleted).commit(remove(add))
    assert rows(table.snapshot()) == [(1,)]


def test_the_offset_belongs_to_the_key() -> None:
    table = new_table()
    add = table.add({"id": [0, 1]}, name="a")
    vector = table.deletion_vector([0], offset=5)
    live = {"add": add["add"] | {"deletionVector": vector}}
    elsewhere = {"add": add["add"] | {"deletionVector": vector | {"offset": 6}}}
    table.create(live).commit(remove(elsewhere))
    assert rows(table.snapshot()) == [(1,)]
    table.commit(remove(live))
    assert rows(table.snapshot()) == []


@pytest.mark.parametrize("kind", ["u", "p", "i"])
def test_every_kind_of_deletion_vector_is_honoured(kind: str) -> None:
    table = new_table()
    add = table.add({"id": list(range(100))}, row_group_size=10)
    table.create(add).commit(*table.delete(add, range(5, 95), kind))
    assert rows(table.snapshot()) == sorted(((i,) for i in [*range(5), *range(95, 100)]), key=repr)


def test_deletion_vectors_are_honoured_whatever_the_protocol_says() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(id="long"))
    add = table.add({"id": [1, 2]})
    table.create(table.delete(add, [0])[1])
    assert rows(table.snapshot()) == [(2,)]


@WITH_CHECKPOINT
def test_adding_a_file_again_replaces_its_statistics(checkpoint: Checkpointed) -> None:
    table = new_table()
    add = table.add({"id": [1, 2]}, name="a")
    table.create(add)
    checkpoint(table)
    again = {"add": add["add"] | {"stats": '{"numRecords": 2, "minValues": {"id": 0}}', "dataChange": False}}
    table.commit(again)
    (file,) = table.snapshot().scan_builder().with_stats().build().files()
    assert json.loads(file.stats or "") == {"numRecords": 2, "minValues": {"id": 0}}
    assert rows(table.snapshot()) == [(1,), (2,)]


def test_unknown_actions_and_fields_are_ignored() -> None:
    table = new_table()
    add = table.add({"id": [1]}, name="a", odd={"x": [1]}, tags={"a": "b"})
    table.create(add, {"flyingCar": {"add": {"path": "b"}}}, {"cdc": {"path": "c"}}, {"commitInfo": {"add": 1}})
    assert rows(table.snapshot()) == [(1,)]


def test_tombstones_in_a_checkpoint_are_ignored() -> None:
    table = new_table()
    add = table.add({"id": [1]}, name="a")
    table.create(add)
    names = table.checkpoint(form="v2-json")
    path = table.log_file(names[0])
    tombstone = json.dumps({"remove": {"path": "a", "deletionTimestamp": 0, "dataChange": True}})
    table.write(path, table.engine.storage.read(path) + tombstone.encode() + b"\n")
    table.commit()
    assert rows(table.snapshot()) == [(1,)]


# Paths


@WITH_CHECKPOINT
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a b.parquet", "a%20b.parquet"),
        ("a%3Ab/x.parquet", "a%253Ab/x.parquet"),
        ("grün/ü.parquet", "gr%C3%BCn/ü.parquet"),
        ("a+b&c=d#.parquet", "a+b&c=d%23.parquet"),
        ("a:b.parquet", "a:b.parquet"),
        ("plain.parquet", "plain.parquet"),
    ],
)
def test_paths_are_decoded_exactly_once(checkpoint: Checkpointed, name: str, path: str) -> None:
    table = new_table()
    table.create(table.add({"id": [1]}, name=name, path=path))
    checkpoint(table)
    assert paths(table) == [name]
    assert rows(table.snapshot()) == [(1,)]
    encoded = quote(name)
    table.commit({"remove": {"path": encoded, "dataChange": True}})
    assert paths(table) == []


@WITH_CHECKPOINT
def test_absolute_paths_may_be_in_or_out_of_the_table(checkpoint: Checkpointed) -> None:
    table = new_table()
    inside = table.add({"id": [1]}, name="in side", path=f"{ROOT}/in%20side")
    outside = table.add({"id": [2]}, name="../other/x y", path="memory:///other/x%20y")
    table.write("memory:///other/x y", table.engine.storage.read(f"{ROOT}/../other/x y"))
    table.create(inside, outside)
    checkpoint(table)
    assert rows(table.snapshot()) == [(1,), (2,)]
    table.commit({"remove": {"path": "in%20side", "dataChange": True}})
    assert rows(table.snapshot()) == [(2,)]


# What is missing or wrong


def test_a_missing_data_file_is_named() -> None:
    table = new_table()
    add = table.add({"id": [1]}, name="a b", path="a%20b")
    table.create(add | {"add": add["add"] | {"path": "gone%20file"}})
    with pytest.raises(MissingFileError, match="gone file") as caught:
        rows(table.snapshot())
    assert caught.value.path == f"{ROOT}/gone file"


def test_a_missing_deletion_vector_is_named() -> None:
    table = new_table()
    vector = table.deletion_vector([0]) | {"pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA"}
    table.create(table.add({"id": [1]}, deletionVector=vector))
    with pytest.raises(MissingFileError, match="deletion_vector_"):
        rows(table.snapshot())


def test_a_missing_sidecar_is_named() -> None:
    table = new_table()
    table.create(table.add({"id": [1]}))
    (name,) = table.checkpoint(form="v2-json-sidecars", parts=1)
    text = table.engine.storage.read(table.log_file(name)).decode()
    table.write(table.log_file(name), text.replace('"sidecar": {"path": "', '"sidecar": {"path": "gone-'))
    with pytest.raises(MissingFileError, match="_sidecars/gone-"):
        rows(table.snapshot())


def test_a_sidecar_that_is_listed_twice_is_read_once() -> None:
    table = new_table()
    table.create(table.add({"id": [1]}))
    (name,) = table.checkpoint(form="v2-json-sidecars", parts=1)
    lines = table.engine.storage.read(table.log_file(name)).splitlines()
    table.write(table.log_file(name), b"\n".join([*lines, *(line for line in lines if b'"sidecar"' in line)]))
    assert rows(table.snapshot()) == [(1,)]


@pytest.mark.parametrize("action", ['{"add": {}}', '{"remove": {"dataChange": true}}', '{"add": {"path": null}}'])
def test_a_file_action_without_a_path_is_an_error(action: str) -> None:
    table = new_table().create()
    table.commit()
    table.write(table.log_file(f"{1:020d}.json"), action)
    with pytest.raises(CorruptTableError):
        rows(table.snapshot())


@pytest.mark.parametrize("form", ["classic", "v2-json", "v2-parquet-sidecars"])
def test_a_file_action_without_a_path_in_a_checkpoint_is_an_error(form: str) -> None:
    table = new_table()
    table.create({"add": {"path": None, "partitionValues": {}, "size": 1}})
    table.checkpoint(form=form)
    with pytest.raises(CorruptTableError, match="no path"):
        rows(table.snapshot())


def test_an_empty_checkpoint_file_is_named() -> None:
    table = new_table().create()
    table.write(table.log_file(f"{0:020d}.checkpoint.parquet"), b"")
    table.commit()
    with pytest.raises(CorruptTableError, match=r"checkpoint\.parquet"):
        rows(table.snapshot())


@pytest.mark.parametrize("vector", [{}, {"storageType": "u"}, {"storageType": "i", "pathOrInlineDv": "x"}])
def test_a_deletion_vector_that_says_too_little_is_an_error(vector: dict[str, Any]) -> None:
    table = new_table()
    table.create(table.add({"id": [1]}, deletionVector=vector))
    with pytest.raises(CorruptTableError):
        rows(table.snapshot())


def test_threads_that_read_a_chain_of_refreshed_snapshots_see_every_file(tmp_path: Path) -> None:
    """What a thread puts together of an older snapshot is forgotten there while another one may be looking at it."""
    target = str(tmp_path / "table")
    tables.create(target, pa.table({"id": [0]}))
    chain = [Table.for_path(default_engine(), target).latest_snapshot()]
    for number in range(1, 9):
        tables.append(target, pa.table({"id": [number]}))
        chain.append(chain[-1].refresh())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            fresh = [chain[0]]
            for later in chain[1:]:
                replay = LogReplay(later.engine, later.root, later.segment, older=fresh[-1]._replay)
                fresh.append(Snapshot(later.engine, later.root, replay, later.protocol, later.metadata))
            with ThreadPoolExecutor(len(fresh)) as pool:
                found = pool.map(lambda one: sum(b.num_rows for b in one.live_files(FileColumns())), fresh)
                assert list(found) == [one.version + 1 for one in fresh]
    finally:
        sys.setswitchinterval(interval)
