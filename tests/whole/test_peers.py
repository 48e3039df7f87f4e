"""A second opinion: what deltalake writes, Lakeport and deltalake read alike."""

import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from tests.rows import canonical

Write = Callable[[str], None]


def rows(start: int, count: int = 5) -> pa.Table:
    """Every type that deltalake writes, with nulls in each column but `id`."""
    ids = list(range(start, start + count))

    def values(make: Callable[[int], Any], data_type: pa.DataType) -> pa.Array:
        return pa.array([None if i % 4 == 3 else make(i) for i in ids], data_type)

    point = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "small": values(lambda i: i % 100, pa.int8()),
            "ratio": values(lambda i: i / 3, pa.float64()),
            "price": values(lambda i: Decimal(i) / 100, pa.decimal128(12, 2)),
            "flag": values(lambda i: i % 2 == 0, pa.bool_()),
            "name": values(lambda i: f"name {i} ü", pa.string()),
            "raw": values(lambda i: bytes([i % 256, 0, 255]), pa.binary()),
            "day": values(lambda i: date(1969 + i, 12, 31), pa.date32()),
            "at": values(lambda i: datetime(2026, 1, 1, 1, 2, 3, i, tzinfo=UTC), pa.timestamp("us", "UTC")),
            "local": values(lambda i: datetime(2026, 1, 1, 1, 2, 3, i), pa.timestamp("us")),
            "point": values(lambda i: {"x": i, "tags": ["a", None]}, point),
            "counts": values(lambda i: [("k", i), ("n", None)], pa.map_(pa.string(), pa.int64())),
        }
    )


def cities(start: int, names: list[str | None]) -> pa.Table:
    return pa.table({"id": range(start, start + len(names)), "city": pa.array(names, pa.string())})


def one_write(path: str) -> None:
    write_deltalake(path, rows(0))


def appended(path: str) -> None:
    for start in range(0, 50, 10):
        write_deltalake(path, rows(start), mode="append")


def partitioned(path: str) -> None:
    write_deltalake(path, rows(0, 20), partition_by=["small", "flag"])


def partitioned_by_times(path: str) -> None:
    write_deltalake(path, rows(0, 12), partition_by=["day", "at", "local", "price"])


def odd_partitions(path: str) -> None:
    names = ["a b", "50%", "%20", "x/y", "#?&=", "10:30", "São Paulo", "北京", "'quoted\"", "a\\b", None]
    write_deltalake(path, cities(0, names), partition_by=["city"])


def deleted(path: str) -> None:
    write_deltalake(path, rows(0, 40), partition_by=["flag"])
    DeltaTable(path).delete("id % 3 = 0")
    DeltaTable(path).delete("flag = true")


def updated_and_merged(path: str) -> None:
    write_deltalake(path, cities(0, ["Oslo", "Cork", "Rome"]))
    DeltaTable(path).update(updates={"city": "'Bergen'"}, predicate="id = 0")
    merge = DeltaTable(path).merge(cities(2, ["Roma", "Paris"]), "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def overwritten(path: str) -> None:
    write_deltalake(path, rows(0))
    write_deltalake(path, rows(100), mode="overwrite")


def checkpointed(path: str) -> None:
    appended(path)
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, rows(100), mode="append")
    DeltaTable(path).delete("id = 11")


def cleaned_up(path: str) -> None:
    """The first commits are gone; the checkpoint stands for them."""
    checkpointed(path)
    for version in range(4):
        (Path(path) / f"_delta_log/{version:020}.json").unlink()


def compacted(path: str) -> None:
    appended(path)
    DeltaTable(path).optimize.compact()


def evolved(path: str) -> None:
    write_deltalake(path, cities(0, ["Oslo", "Cork"]))
    wider = cities(2, ["Rome"]).append_column("zip", pa.array([123], pa.int32()))
    write_deltalake(path, wider, mode="append", schema_mode="merge")
    write_deltalake(path, pa.table({"id": [9]}), mode="append", schema_mode="merge")


def replaced_schema(path: str) -> None:
    write_deltalake(path, cities(0, ["Oslo", "Cork"]))
    write_deltalake(path, pa.table({"other": [1.5]}), mode="overwrite", schema_mode="overwrite")


def no_rows(path: str) -> None:
    write_deltalake(path, rows(0, 0))


SCENARIOS: list[Write] = [
    one_write,
    appended,
    partitioned,
    partitioned_by_times,
    odd_partitions,
    deleted,
    updated_and_merged,
    overwritten,
    checkpointed,
    cleaned_up,
    compacted,
    evolved,
    replaced_schema,
    no_rows,
]


def read_by_deltalake(table: DeltaTable) -> pa.Table:
    return table.to_pyarrow_table()


@pytest.fixture(params=SCENARIOS, ids=lambda write: write.__name__)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    table = str(tmp_path / "a table")
    request.param(table)
    return table


def versions(path: str) -> list[int]:
    latest = DeltaTable(path).version()
    readable = [commit.version for commit in lakeport.scan(path).history()]
    return [v for v in range(latest + 1) if v in readable]


def test_both_read_the_same_rows_and_columns(path: str) -> None:
    ours, theirs = lakeport.scan(path), DeltaTable(path)
    assert ours.version == theirs.version()
    expected = read_by_deltalake(theirs)
    assert ours.schema.names == expected.schema.names
    assert canonical(ours.to_arrow()) == canonical(expected)
    assert ours.count() == expected.num_rows


def test_both_read_the_same_rows_at_every_version(path: str) -> None:
    for version in versions(path):
        expected = read_by_deltalake(DeltaTable(path, version=version))
        assert canonical(lakeport.scan(path).at(version=version).to_arrow()) == canonical(expected)


def test_both_name_the_same_files_and_the_same_operations(path: str) -> None:
    ours, theirs = lakeport.scan(path), DeltaTable(path)
    listed = {Path(file.path).name: file.size for file in ours.files()}
    actions = pa.table(theirs.get_add_actions(flatten=True)).to_pylist()
    assert listed == {Path(action["path"]).name: action["size_bytes"] for action in actions}
    expected = [(commit["version"], commit["operation"]) for commit in theirs.history()]
    assert [(commit.version, commit.operation) for commit in ours.history()] == expected


@pytest.mark.parametrize(
    "condition",
    ["id > 12", "price < 0.05", "flag", "name LIKE 'name 1%'", "day IS NULL", "point.x >= 30", "small IN (3, 5, 44)"],
)
def test_a_filter_keeps_the_rows_that_it_keeps_when_everything_is_read(tmp_path: Path, condition: str) -> None:
    checkpointed(str(tmp_path))
    frame = lakeport.scan(str(tmp_path))
    duckdb = pytest.importorskip("duckdb")
    everything = read_by_deltalake(DeltaTable(tmp_path))
    expected = duckdb.from_arrow(everything).filter(condition).to_arrow_table()
    assert canonical(frame.where(condition).select("id").to_arrow()) == canonical(expected.select(["id"]))
    assert frame.where(condition).count() == expected.num_rows


def test_time_travel_by_timestamp_agrees(tmp_path: Path) -> None:
    appended(str(tmp_path))
    times = [1_700_000_000 + 60 * version for version in range(5)]
    for version, seconds in enumerate(times):
        os.utime(tmp_path / f"_delta_log/{version:020}.json", (seconds, seconds))
    for seconds in [*times, times[0] + 59, times[3] + 1]:
        moment, theirs = datetime.fromtimestamp(seconds, UTC), DeltaTable(tmp_path)
        theirs.load_as_version(moment)
        assert lakeport.scan(str(tmp_path)).at(timestamp=moment).version == theirs.version()
