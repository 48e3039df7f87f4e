"""Small files are compacted after writes to tables that ask for it, in a commit that never fails the write."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport import tables
from tests.properties import FEED, TRACKING, VECTORS
from tests.rows import ids, rows_of
from tests.tables.maintained import changed_rows, data_files, live_files, numbers, table_of

COMPACTING = {"delta.autoOptimize.autoCompact": "true"}
MANY = 50


def newest(target: str) -> tuple[str, str]:
    """The newest operation, and whether nobody asked for it."""
    (commit,) = tables.history(target, 1)
    return commit.operation, commit.info["operationParameters"].get("auto", "false")


def test_the_fiftieth_small_file_makes_them_one(tmp_path: Path) -> None:
    target = table_of(tmp_path, MANY - 1, COMPACTING)
    assert (newest(target)[0], len(live_files(target))) == ("WRITE", MANY - 1)
    result = tables.append(target, numbers(490, 10))
    assert result.version == MANY - 1  # the append's own, not that of the compaction
    assert (newest(target), len(live_files(target))) == (("OPTIMIZE", "true"), 1)
    assert lakeport.scan(target).version == MANY
    assert ids(target) == list(range(500))
    assert DeltaTable(target).to_pyarrow_table().num_rows == 500


@pytest.mark.parametrize(
    ("properties", "compacts"),
    [
        ({"delta.autoOptimize.autoCompact": "auto"}, True),
        ({"delta.autoOptimize.autoCompact": "Legacy"}, True),
        ({"delta.autoOptimize": "true"}, True),
        ({"delta.autoOptimize": "true", "delta.autoOptimize.autoCompact": "false"}, False),
        ({"delta.autoOptimize": "false", "delta.autoOptimize.autoCompact": "true"}, True),
        ({"delta.autoOptimize.optimizeWrite": "true"}, False),
        ({}, False),
    ],
)
def test_only_tables_that_ask_for_it_are_compacted(tmp_path: Path, properties: dict[str, str], compacts: bool) -> None:
    target = table_of(tmp_path, MANY, properties)
    assert newest(target)[0] == ("OPTIMIZE" if compacts else "WRITE")


def test_other_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="true, auto or legacy"):
        table_of(tmp_path, 1, {"delta.autoOptimize.autoCompact": "yes"})


@pytest.mark.parametrize(
    "write",
    [
        lambda target: tables.delete(target, "id % 10 = 3"),
        lambda target: tables.update(target, {"id": "id + 1000"}, "id < 20"),
        lambda target: tables.overwrite(target, numbers(30, 5), where="id BETWEEN 30 AND 39"),
        lambda target: (
            tables.merge(target, numbers(495, 10), "target.id = source.id")
            .when_matched_delete()
            .when_not_matched_insert_all()
            .execute()
        ),
    ],
    ids=["delete", "update", "overwrite", "merge"],
)
@pytest.mark.parametrize("vectors", [{}, VECTORS], ids=["copies", "vectors"])
def test_every_write_compacts(tmp_path: Path, write: Callable[[str], object], vectors: dict[str, str]) -> None:
    target = table_of(tmp_path, MANY, vectors)
    plain = table_of(tmp_path / "plain", MANY, vectors)
    tables.append(target, numbers(500, 10))
    tables.append(plain, numbers(500, 10))
    tables.set_properties(target, COMPACTING)
    write(target)
    write(plain)
    assert len(live_files(target)) < 5
    assert newest(target)[0] == "OPTIMIZE" or not vectors
    assert rows_of(target) == rows_of(plain)


def test_only_partitions_that_got_rows_are_compacted(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, schema="id long, city string", partition_by=["city"])
    for number in range(MANY - 1):
        tables.append(target, pa.table({"id": [number, number], "city": ["Ulm", "Bari"]}))
    tables.append(target, pa.table({"id": [99], "city": ["Ulm"]}))
    tables.set_properties(target, COMPACTING)
    tables.append(target, pa.table({"id": [100], "city": ["Bari"]}))
    files = [file.partition_values["city"] for file in lakeport.scan(target).files()]
    assert (files.count("Bari"), files.count("Ulm")) == (1, MANY)


def test_files_of_half_the_target_size_are_not_small(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1, COMPACTING)
    size = next(iter(lakeport.scan(target).files())).size
    tables.set_properties(target, {"delta.targetFileSize": str(size)})
    for start in range(10, MANY * 10 + 10, 10):
        tables.append(target, numbers(start, 10))
    assert newest(target)[0] == "WRITE"


def test_the_feed_shows_nothing_and_row_ids_stay(tmp_path: Path) -> None:
    target = table_of(tmp_path, MANY, COMPACTING, FEED, TRACKING)
    assert newest(target) == ("OPTIMIZE", "true")
    assert changed_rows(target, MANY) == []
    rows = lakeport.scan(target).with_row_tracking().to_arrow()
    assert rows.column("_row_id").to_pylist() == rows.column("id").to_pylist()


def test_a_clustered_table_is_left_to_optimize(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, schema="id long", cluster_by=["id"], properties=COMPACTING)
    for start in range(MANY):
        tables.append(target, numbers(start, 1))
    assert newest(target)[0] == "WRITE"


def test_writers_at_once_lose_no_rows_and_do_not_fail(tmp_path: Path) -> None:
    target = table_of(tmp_path, MANY - 4, COMPACTING)

    def write(number: int) -> None:
        for start in range(10):
            tables.append(target, numbers(1000 * number + start, 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(1, 5)))
    assert len(ids(target)) == 10 * (MANY - 4) + 40
    assert "OPTIMIZE" in {commit.operation for commit in tables.history(target)}


def test_a_failed_compaction_is_logged_and_leaves_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = table_of(tmp_path, MANY - 1, COMPACTING)
    oldest = sorted(live_files(target))[0]
    gone = Path(target, oldest)
    content = gone.read_bytes()
    gone.unlink()  # the append does not read it, the compaction does
    before = data_files(target)
    with caplog.at_level(logging.WARNING):
        result = tables.append(target, numbers(490, 10))
    assert result.version == MANY - 1
    assert f"version {MANY - 1} is committed, but compacting small files after it failed" in caplog.text
    assert newest(target)[0] == "WRITE"
    assert len(data_files(target) - before) == 1
    gone.write_bytes(content)
    assert ids(target) == list(range(500))
