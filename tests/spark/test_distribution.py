"""Operations on tables whose work is done by the tasks of Spark: the result is the same as without."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeport
from lakeport import tables
from lakeport.engine import default_engine, memory_engine
from lakeport.errors import ConstraintError, InvalidDataError
from lakeport.tables import Result
from lakeport.workers import Workplace, open_workers
from tests.properties import FEED, MAPPED, TRACKING, VECTORS
from tests.rows import rows_of
from tests.spark.distributed import SMALL_FILES, changes_of, copy_of, merge_into, table_in
from tests.tables.maintained import data_files

KINDS = {
    "plain": {},
    "vectors": VECTORS,
    "feed": FEED,
    "all": VECTORS | FEED | TRACKING | MAPPED,
}
OPERATIONS: dict[str, Callable[[str, Any], Result]] = {
    "delete": lambda target, spark: tables.delete(target, "id % 3 = 1", spark=spark),
    "delete_by_partition": lambda target, spark: tables.delete(target, "day = DATE '2026-01-01'", spark=spark),
    "update": lambda target, spark: tables.update(target, {"v": "v || v", "id": "id + 1"}, "id > 7", spark=spark),
    "merge": merge_into,
    "optimize": lambda target, spark: tables.optimize(target, purge=True, spark=spark),
}
OF_FILES = ("AddedFiles", "AddedBytes", "FilesAdded", "BytesAdded", "ChangeFiles", "FileSize")
"""Parts of the names of metrics that tell how rows are laid out in new files."""


def without_layout(metrics: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in metrics.items() if not any(part in name for part in OF_FILES)}


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_does_the_same_with_spark(tmp_path: Path, spark: SparkSession, kind: str, operation: str) -> None:
    local = table_in(tmp_path, KINDS[kind], SMALL_FILES)
    distributed = copy_of(local)
    expected, found = OPERATIONS[operation](local, None), OPERATIONS[operation](distributed, spark)
    assert without_layout(found.metrics) == without_layout(expected.metrics)
    assert found.version == expected.version
    assert rows_of(distributed) == rows_of(local)
    if "delta.enableChangeDataFeed" in KINDS[kind]:
        assert changes_of(distributed, found.version) == changes_of(local, expected.version)
    assert not any("merge-source" in name for name in data_files(distributed))


def test_tasks_write_files_of_their_own(tmp_path: Path, spark: SparkSession) -> None:
    local = table_in(tmp_path, VECTORS, SMALL_FILES)
    distributed = copy_of(local)
    assert tables.update(local, {"v": "'x'"}).metrics["numAddedFiles"] == 2, "one in each partition"
    assert tables.update(distributed, {"v": "'x'"}, spark=spark).metrics["numAddedFiles"] > 2


def test_where_one_task_does_all_the_files_are_the_same(tmp_path: Path, spark: SparkSession) -> None:
    local = table_in(tmp_path, FEED)
    distributed = copy_of(local)
    expected = tables.update(local, {"v": "'x'"}, "id > 7")
    assert tables.update(distributed, {"v": "'x'"}, "id > 7", spark=spark) == expected


@pytest.mark.parametrize("dry_run", [True, False])
def test_vacuum_finds_the_same_files_with_spark(tmp_path: Path, spark: SparkSession, dry_run: bool) -> None:
    local = table_in(tmp_path, VECTORS | FEED)
    tables.optimize(local, purge=True)
    (Path(local) / "day=2026-01-01" / "deeper").mkdir()
    (Path(local) / "day=2026-01-01" / "deeper" / "stray.parquet").write_bytes(b"")
    tables.create(str(Path(local) / "nested" / "table"), {"id": [1]})
    distributed = copy_of(local)
    expected, found = (
        tables.vacuum(target, retention=0, enforce_retention=False, dry_run=dry_run, spark=session)
        for target, session in ((local, None), (distributed, spark))
    )
    assert found == expected
    assert "day=2026-01-01/deeper/stray.parquet" in found.files
    assert data_files(distributed) == data_files(local)
    assert rows_of(distributed) == rows_of(local)


def test_a_row_that_breaks_a_constraint_leaves_the_table_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    local = table_in(tmp_path, FEED, SMALL_FILES)
    distributed = copy_of(local)
    before, version = data_files(distributed), lakeport.scan(distributed).version
    messages = []
    for target, session in ((local, None), (distributed, spark)):
        with pytest.raises(ConstraintError) as caught:
            tables.update(target, {"id": "30 - id"}, spark=session)
        messages.append((caught.value.constraint, caught.value.column))
    assert messages[0] == messages[1] == ("positive", "id")
    assert "the row with (id = " in str(caught.value)
    assert data_files(distributed) == before
    assert lakeport.scan(distributed).version == version


def test_a_merge_that_is_not_clear_leaves_the_table_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    target = table_in(tmp_path, VECTORS, SMALL_FILES)
    before = data_files(target)
    merge = tables.merge(target, {"key": [20, 20], "n": [1, 2]}, "id = key", spark=spark)
    with pytest.raises(InvalidDataError, match="is matched by 2 rows of the source") as caught:
        merge.when_matched_update({"v": "cast(n as string)"}).execute()
    assert caught.value.row == 1
    assert data_files(target) == before


def test_a_frame_of_spark_can_be_merged(tmp_path: Path, spark: SparkSession) -> None:
    target = table_in(tmp_path, VECTORS)
    source = spark.range(1, 4).withColumnRenamed("id", "key")
    result = tables.merge(target, source, "id = key", spark=spark).when_matched_delete().execute()
    assert result.metrics["numTargetRowsDeleted"] == 3


def test_an_engine_that_cannot_be_sent_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    engine = memory_engine()
    tables.create("memory://t", {"id": [1]}, engine=engine)
    with pytest.raises(ValueError, match=r"can be pickled .*: drop `engine`"):
        tables.delete("memory://t", "id = 1", engine=engine, spark=spark)


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    target = table_in(tmp_path)
    session: Any = "local[2]"
    with pytest.raises(ValueError, match="`spark` must be a SparkSession, not a str"):
        tables.optimize(target, spark=session)


# The workers themselves


def _squared(place: Workplace, item: int) -> tuple[int, int]:
    if item == 13:
        raise ConstraintError("thirteen", constraint="luck", row=3)
    return item * item, os.getpid()


class _StubbornError(Exception):
    """An error that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("no way")
        self.function = lambda: None

    def __reduce__(self) -> str:
        raise TypeError("no")


def _refuse(place: Workplace, item: int) -> None:
    raise _StubbornError


def test_results_come_in_the_order_of_the_items_from_other_processes(spark: SparkSession) -> None:
    results = list(open_workers(default_engine(), spark).map(_squared, range(10)))
    assert [result for result, _ in results] == [n * n for n in range(10)]
    assert os.getpid() not in {process for _, process in results}


def test_an_error_comes_as_it_is_and_what_others_made_is_undone(spark: SparkSession) -> None:
    undone: list[int] = []
    results = open_workers(default_engine(), spark).map(_squared, range(11, 15), undo=lambda r: undone.append(r[0]))
    with pytest.raises(ConstraintError, match="thirteen") as caught:
        next(results)
    assert (caught.value.constraint, caught.value.row) == ("luck", 3)
    assert sorted(undone) == [121, 144, 196]


def test_results_that_are_not_taken_to_the_end_are_undone(spark: SparkSession) -> None:
    undone: list[int] = []
    results = open_workers(default_engine(), spark).map(_squared, range(3), undo=lambda r: undone.append(r[0]))
    assert next(results)[0] == 0
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert undone == [0, 1, 4]


def test_an_error_that_cannot_travel_is_told(spark: SparkSession) -> None:
    with pytest.raises(RuntimeError, match="_StubbornError: no way"):
        list(open_workers(default_engine(), spark).map(_refuse, [1]))


def test_more_than_fits_into_one_job_is_done_in_several(spark: SparkSession) -> None:
    items = [bytes([n]) * (24 << 20) for n in range(4)]
    assert list(open_workers(default_engine(), spark).map(_weigh, items)) == [(n, 24 << 20) for n in range(4)]


def _weigh(place: Workplace, item: bytes) -> tuple[int, int]:
    return item[0], len(item)


def test_storage_options_are_not_in_the_plan(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    workers = open_workers(default_engine({"aws_secret_access_key": "a very secret key"}), spark)
    assert list(workers.map(_options, [1])) == ["a very secret key"]
    assert "secret" not in repr(workers) + "".join(capfd.readouterr())


def _options(place: Workplace, item: int) -> str:
    return str(place.engine.storage._options["aws_secret_access_key"])  # type: ignore[attr-defined]  # of `Storage`
