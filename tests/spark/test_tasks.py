"""Tasks: small files together, large ones in parts, each row in one of them; and nothing of what they hold is shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.engine import default_engine
from lakeport.kernel.changes import ChangeFile
from lakeport.kernel.scan import ScanFile
from lakeport.spark.tasks import ReadTask, TaskPartition, TaskSizes, plan_tasks
from lakeport.testing.builder import TableBuilder, struct
from lakeport.workers.reading import RowReader
from tests.client.shares import sharing_tables
from tests.server.running import TOKEN

SMALL = TaskSizes(most_bytes=20_000, open_cost=1000, parallelism=1)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One file of many row groups, one of a single group, and twenty small ones."""
    builder = TableBuilder(default_engine(), str(tmp_path_factory.mktemp("mixed")), struct(id="long"))
    many = builder.add({"id": list(range(10_000))}, row_group_size=500)
    one = builder.add({"id": list(range(10_000, 20_000))})
    small = [builder.add({"id": [20_000 + number]}) for number in range(20)]
    builder.create(many, one, *small)
    return builder.root


def tasks_of(path: str, sizes: TaskSizes) -> list[ReadTask]:
    frame = lakeport.scan(path)
    return plan_tasks(frame.source, frame.plan().files(), sizes)


def ids_of(path: str, tasks: list[ReadTask]) -> list[int]:
    reader = RowReader.for_scan(lakeport.scan(path).plan())
    batches = [batch for task in tasks for batch in pickle.loads(pickle.dumps(task)).read(reader)]
    ids: list[int] = pa.Table.from_batches(batches, reader.output).column("id").to_pylist()
    return ids


@pytest.mark.parametrize("most_bytes", [4_000, 20_000, 1 << 30])
@pytest.mark.parametrize("parallelism", [1, 64])
def test_each_row_is_in_one_task(mixed: str, most_bytes: int, parallelism: int) -> None:
    tasks = tasks_of(mixed, TaskSizes(most_bytes=most_bytes, open_cost=100, parallelism=parallelism))
    assert sorted(ids_of(mixed, tasks)) == list(range(20_020))


def test_large_files_are_cut_and_small_ones_are_put_together(mixed: str) -> None:
    tasks = tasks_of(mixed, SMALL)
    sizes = {file.path: file.size for file in lakeport.scan(mixed).plan().files()}
    cut = {piece.file.path: piece.parts for task in tasks for piece in task.pieces if piece.parts > 1}
    assert set(cut) == {path for path, size in sizes.items() if size > SMALL.most_bytes}
    assert len(cut) == 2
    assert max(len(task.pieces) for task in tasks) > 5
    for task in tasks:
        assert sum(piece.file.size // piece.parts for piece in task.pieces) <= SMALL.most_bytes


def test_a_task_has_as_much_as_the_others(mixed: str) -> None:
    """Where there is little to read, all that run at once get some of it."""
    assert len(tasks_of(mixed, TaskSizes(open_cost=1, parallelism=1))) == 1
    assert 4 <= len(tasks_of(mixed, TaskSizes(open_cost=1, parallelism=4))) <= 8


def test_a_table_without_files_has_no_tasks(tmp_path: Path) -> None:
    tables.create(str(tmp_path / "t"), pa.table({"id": pa.array([], pa.int64())}))
    assert tasks_of(str(tmp_path / "t"), SMALL) == []


def test_changes_are_planned_in_the_same_way(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": list(range(50))}, properties={"delta.enableChangeDataFeed": "true"})
    tables.delete(path, "id % 2 = 0")
    changes = lakeport.scan(path).changes(0)
    files: list[ScanFile | ChangeFile] = list(changes.plan().files())
    reader = RowReader.for_scan(changes.plan())
    rows = [row for task in plan_tasks(changes.source, files, SMALL) for row in task.read(reader)]
    assert sum(batch.num_rows for batch in rows) == 75


def test_a_task_of_a_shared_table_has_only_its_own_urls(tmp_path: Path) -> None:
    with sharing_tables(tmp_path) as shared:
        frame = lakeport.scan(shared.target("sales.eu.orders"))
        files = list(frame.plan().files())
        tasks = plan_tasks(frame.source, files, TaskSizes(most_bytes=2_000, open_cost=2_000))
        assert len(files) == len({task.pieces[0].file.path for task in tasks}) > 1
        reader = RowReader.for_scan(frame.plan())
        for task in tasks:
            packed = pickle.dumps(task)
            others = {file.path for file in files} - {piece.file.path for piece in task.pieces}
            assert not any(path.encode() in packed for path in others)
        found = [row for task in tasks for batch in task.read(reader) for row in batch.to_pylist()]
        assert sorted(row["id"] for row in found) == [1, 2, 3, 4]


def test_neither_a_task_nor_its_partition_shows_what_it_holds(tmp_path: Path) -> None:
    with sharing_tables(tmp_path) as shared:
        frame = lakeport.scan(shared.target("sales.eu.orders"))
        for task in plan_tasks(frame.source, frame.plan().files()):
            for shown in (repr(task), repr(TaskPartition(task)), str(TaskPartition(task))):
                assert TOKEN not in shown
                assert "http" not in shown


def test_a_size_that_no_file_has_does_not_make_millions_of_tasks(mixed: str) -> None:
    frame = lakeport.scan(mixed)
    file = msgspec.structs.replace(next(iter(frame.plan().files())), size=10**15)
    assert len(plan_tasks(frame.source, [file])) == 10_000
