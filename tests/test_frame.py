"""`Frame`: the lazy view of a table that `lakeport.scan` returns."""

import copy
import gc
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeport
from lakeport import Frame, col, tables
from lakeport.engine import default_engine, memory_engine
from lakeport.errors import (
    CorruptTableError,
    InvalidFilterError,
    MissingFileError,
    TableNotFoundError,
    UnknownColumnError,
    VersionNotFoundError,
)
from lakeport.kernel.engine import Engine
from lakeport.testing.builder import TableBuilder, protocol, struct
from lakeport.testing.counting import counting_engine
from tests.rows import ids

ROOT = "memory:///t"
TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_version",
}


def orders(engine: Engine | None = None, root: str = ROOT) -> TableBuilder:
    """Ten orders in three versions: 0 to 4 on the first day, 5 to 9 on the second."""
    schema = struct(id="long", place=struct(city="string", zip="string"), day="date")
    table = TableBuilder(engine or memory_engine(), root, schema, ["day"])
    table.create({"commitInfo": {"operation": "CREATE TABLE"}})
    for version, day in enumerate(("2026-01-01", "2026-01-02")):
        ids = range(5 * version, 5 * version + 5)
        data = {"id": list(ids), "place": [{"city": f"c{i}", "zip": None} if i % 2 else None for i in ids]}
        table.commit(table.add(data, {"day": day}, row_group_size=2), {"commitInfo": {"operation": "WRITE"}})
    return table


def frame(table: TableBuilder) -> Frame:
    return lakeport.scan(table.root, engine=table.engine)


# What it is


def test_nothing_is_read_before_it_is_asked_for() -> None:
    engine, storage = counting_engine()
    table = orders(engine)
    view = frame(table).select("id").where("id > 3").limit(2)
    assert storage.opened == []
    assert view.version == 2
    assert storage.opened


def test_a_frame_stays_at_the_version_that_it_has_seen() -> None:
    table = orders()
    view = frame(table)
    assert view.count() == 10
    table.commit(table.add({"id": [10]}, {"day": "2026-01-03"}))
    assert (view.count(), view.where("id >= 0").count(), frame(table).count()) == (10, 10, 11)


FIRST_QUESTIONS: dict[str, Callable[[Frame], Any]] = {
    "version": lambda view: view.version,
    "schema": lambda view: view.schema,
    "selected": lambda view: view.select("id").schema,
    "definition": lambda view: view.definition,
    "history": lambda view: view.history(),
    "snapshot": lambda view: view.snapshot,
    "rows": lambda view: view.to_arrow(),
    "filtered rows": lambda view: view.where("id > 3").to_arrow(),
    "limited rows": lambda view: view.limit(1).to_arrow(),
    "count": lambda view: view.count(),
    "files": lambda view: view.files(),
    "explain": lambda view: view.explain(),
}


@pytest.mark.parametrize("ask", FIRST_QUESTIONS.values(), ids=FIRST_QUESTIONS)
def test_a_frame_stays_at_the_version_of_the_first_question(ask: Callable[[Frame], Any]) -> None:
    table = orders()
    view = frame(table)
    before = view.where("id >= 0")
    ask(view)
    table.commit(table.add({"id": [10]}, {"day": "2026-01-03"}))
    for same in (view, view.select("id"), view.where("id >= 0"), view.limit(20), before):
        assert (same.version, same.snapshot.version, ids(same)) == (2, 2, list(range(10)))
        assert (same.count(), len(same.files()), "version   2" in same.explain()) == (10, 2, True)
    assert frame(table).count() == 11


def test_a_frame_at_a_time_stays_at_its_version(tmp_path: Path) -> None:
    path = str(tmp_path)
    tables.create(path, {"id": [1]})
    view = lakeport.scan(path).at(timestamp=lakeport.scan(path).snapshot.timestamp)
    assert view.version == 0
    tables.append(path, {"id": [2]})
    os.utime(tmp_path / "_delta_log" / f"{1:020d}.json", (0, 0))
    assert (view.version, ids(view)) == (0, [1])


def test_the_schema_is_that_of_the_rows() -> None:
    view = frame(orders()).select("place.city", "DAY")
    assert view.schema == pa.schema([("place", pa.struct([("city", pa.string())])), ("day", pa.date32())])
    assert view.to_arrow().schema == view.schema
    assert view.where("id < 0").to_arrow().schema == view.schema


def test_a_table_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    for target in (str(tmp_path), str(tmp_path / "nowhere"), "/no\0where", "/no\udcffwhere"):
        with pytest.raises(TableNotFoundError):
            _ = lakeport.scan(target).version


def test_history_is_newest_first_and_ends_at_the_version() -> None:
    view = frame(orders())
    assert [(c.version, c.operation) for c in view.history()] == [(2, "WRITE"), (1, "WRITE"), (0, "CREATE TABLE")]
    assert [c.version for c in view.history(1)] == [2]
    assert [c.version for c in view.at(version=1).history()] == [1, 0]


def test_files_are_those_that_have_to_be_read() -> None:
    view = frame(orders())
    assert [f.partition_values["day"] for f in view.where("id > 7").files()] == ["2026-01-02"]
    assert sorted(f.num_records or 0 for f in view.files()) == [5, 5]


def test_explain_tells_what_a_read_would_do() -> None:
    engine, storage = counting_engine()
    view = frame(orders(engine)).where("day = '2026-01-02' AND `id` > 6").select("id").limit(3)
    text = view.explain()
    assert "version   2" in text
    assert "columns   id" in text
    assert "1 of 2" in text
    assert "on rows   id > 6" in text
    assert "limit     3" in text
    assert not [name for name in storage.opened if name.endswith(".parquet")]
    assert "partitions suffice" in frame(orders()).where("day = '2026-01-02'").explain()


# Narrowing


def test_columns_come_in_the_order_in_which_they_are_named() -> None:
    rows = frame(orders()).where("id = 1").select("day", "ID", "place.zip", "place.city").to_arrow().to_pylist()
    assert rows == [{"day": date(2026, 1, 1), "id": 1, "place": {"zip": None, "city": "c1"}}]


def test_a_filter_may_need_columns_that_are_not_selected() -> None:
    rows = frame(orders()).select("place.zip").where("place.city = 'c3'").to_arrow().to_pylist()
    assert rows == [{"place": {"zip": None}}]


def test_a_condition_on_a_struct_and_on_its_field_is_exact() -> None:
    view = frame(orders())
    assert ids(view.where("place IS NULL OR place.city = 'c1'")) == [0, 1, 2, 4, 6, 8]
    assert ids(view.where("place IS NOT NULL AND place.city <> 'c1'")) == [3, 5, 7, 9]


def test_several_conditions_must_all_hold() -> None:
    view = frame(orders()).where("id > 2").where(col("id") < 6).where("day = DATE '2026-01-02'")
    assert ids(view) == [5]


def test_long_conditions_are_read() -> None:
    view = frame(orders())
    assert ids(view.where(" AND ".join(["id > 7"] * 3000))) == [8, 9]
    condition = col("id") == 3
    for number in range(1000, 3000):
        view, condition = view.where(col("id") >= 0), condition | (col("id") == number)  # type: ignore[assignment]
    assert ids(view.where(condition)) == [3]
    assert view.where(condition).count() == 1
    assert "id = 2999" in view.where(condition).explain()


def test_a_limit_is_the_smallest_of_all() -> None:
    view = frame(orders())
    assert [view.limit(n).to_arrow().num_rows for n in (0, 1, 5, 7, 10, 99)] == [0, 1, 5, 7, 10, 10]
    assert view.limit(4).limit(6).to_arrow().num_rows == 4
    assert (view.limit(6).limit(4).count(), view.limit(99).count(), view.where("id > 6").limit(2).count()) == (4, 10, 2)


def test_another_version_is_read_by_its_number_or_by_a_time(tmp_path: Path) -> None:
    table = orders(default_engine(), str(tmp_path))
    for version, year in enumerate((2020, 2021, 2022)):
        seconds = datetime(year, 1, 1, tzinfo=UTC).timestamp()
        os.utime(tmp_path / "_delta_log" / f"{version:020d}.json", (seconds, seconds))
    view = frame(table)
    assert [view.at(version=version).count() for version in (0, 1, 2)] == [0, 5, 10]
    assert view.at(timestamp="2021-06-01").version == 1
    assert view.at(timestamp="2021-01-01T01:00:00+01:00").version == 1
    assert view.at(timestamp=datetime(2020, 6, 1)).version == 0
    assert view.at(timestamp=1609459200000).version == 1
    assert view.at(version=1).at(version=2).count() == 10
    with pytest.raises(VersionNotFoundError):
        _ = view.at(timestamp="2019-01-01").version
    with pytest.raises(VersionNotFoundError):
        _ = view.at(version=3).version


def test_rows_can_carry_their_ids() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(id="long"), properties=TRACKED)
    table.create().commit(table.add({"id": [7, 8]}, baseRowId=40, defaultRowCommitVersion=1))
    view = frame(table).with_row_tracking()
    expected = [{"id": 8, "_row_id": 41, "_row_commit_version": 1}]
    assert view.where("id = 8").to_arrow().to_pylist() == expected
    assert view.schema.names == ["id", "_row_id", "_row_commit_version"]
    assert view.count() == 2
    assert view.select("id").limit(1).to_arrow().num_columns == 3
    with pytest.raises(ValueError, match="does not track rows"):
        frame(orders()).with_row_tracking().to_arrow()


def test_bad_arguments_are_value_errors() -> None:
    view = frame(orders())
    bad = [
        lambda: view.select(),
        lambda: view.limit(-1),
        lambda: view.at(),
        lambda: view.at(version=1, timestamp=1),
        lambda: view.at(timestamp="yesterday"),
        lambda: view.at(timestamp=date(2026, 1, 1)),  # type: ignore[arg-type]  # the wrong kind
        lambda: view.at(version="1"),  # type: ignore[arg-type]  # the wrong kind
        lambda: view.at(version=-1).version,
        lambda: view.where(None),  # type: ignore[arg-type]
        lambda: view.to_batches(0),
        lambda: view.to_batches(-1),
    ]
    for call in bad:
        with pytest.raises(ValueError, match=r"."):
            call()


@pytest.mark.parametrize("text", ["id >", "id = 'x'", "place = 1", "id", "id = 1.5.BD", "place.city LIKE 'a\\\\'"])
def test_a_bad_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilterError):
        frame(orders()).where(text).to_arrow()


def test_an_unknown_column_is_named_as_soon_as_the_table_is_known() -> None:
    view = frame(orders())
    late = view.select("nope")
    with pytest.raises(UnknownColumnError, match="nope"):
        late.to_arrow()
    with pytest.raises(UnknownColumnError, match="nope"):
        view.select("nope")
    with pytest.raises(UnknownColumnError, match="nope"):
        view.where("nope = 1").count()


# Rows


@pytest.mark.parametrize("batch_size", [None, 1, 2, 7])
def test_batches_have_at_most_so_many_rows(batch_size: int | None) -> None:
    batches = list(frame(orders()).to_batches(batch_size))
    assert sum(batch.num_rows for batch in batches) == 10
    assert all(batch.num_rows <= (batch_size or 10) for batch in batches)


def test_every_form_has_the_same_rows() -> None:
    view = frame(orders()).where("id >= 4").select("id", "day")
    expected = [(i, date(2026, 1, 1 + i // 5)) for i in range(4, 10)]
    assert sorted(view.to_polars().rows()) == expected
    assert sorted(view.to_duckdb().fetchall()) == expected
    assert sorted(view.to_pandas(date_as_object=True).itertuples(index=False, name=None)) == expected
    assert view.to_reader().read_all().sort_by("id") == view.to_arrow().sort_by("id")
    assert pl.DataFrame(view.to_reader()).height == 6
    connection = duckdb.connect()
    assert view.to_duckdb(connection).aggregate("sum(id)").fetchall() == [(39,)]


def test_a_table_without_files_or_without_columns_has_no_rows() -> None:
    empty = frame(TableBuilder(memory_engine(), ROOT, struct(id="long")).create())
    bare = frame(TableBuilder(memory_engine(), ROOT, struct()).create())
    for view in (empty, bare, empty.where("id = 1"), empty.where("1 = 1")):
        assert (view.count(), view.to_arrow().num_rows, view.files()) == (0, 0, [])


def test_a_condition_without_columns_takes_all_rows_or_none() -> None:
    view = frame(orders())
    assert [view.where(text).count() for text in ("TRUE", "1 = 1", "FALSE", "NULL", "1 > 2")] == [10, 10, 0, 0, 0]


def test_rows_are_counted_from_the_log_where_it_tells() -> None:
    engine, storage = counting_engine()
    view = frame(orders(engine))
    assert view.count() == 10
    assert view.where("day = '2026-01-02'").count() == 5
    assert not [name for name in storage.opened if name.endswith(".parquet")]
    assert view.where("day = '2026-01-02' OR id = 0").count() == 6


@pytest.mark.parametrize("stats", [True, None, '{"numRecords": 1}', '{"numRecords": -5}', '{"numRecords": "x"}'])
def test_deleted_rows_are_not_counted_whatever_the_statistics_say(stats: bool | str | None) -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(id="long"), protocol=protocol(features=["deletionVectors"]))
    added = table.create().add({"id": list(range(10))}, stats=stats, row_group_size=3)
    table.commit(*table.delete(added, [1, 2, 3, 9]))
    view = frame(table)
    assert (view.count(), view.to_arrow().num_rows) == (6, 6)
    assert (view.where("id > 3").count(), view.limit(4).to_arrow().num_rows) == (5, 4)


@pytest.mark.parametrize("far", [4_000_000, -4_000_000])
@pytest.mark.parametrize("data_type", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")])
def test_rows_beside_dates_and_times_that_python_cannot_represent_are_filtered(
    tmp_path: Path, data_type: pa.DataType, far: int
) -> None:
    root = str(tmp_path / "t")
    is_date = pa.types.is_date(data_type)
    days = pa.array([18_000, 10_000, far, 18_000], pa.int32() if is_date else pa.int64())
    moments = (days if is_date else pc.multiply(days, 86_400_000_000)).view(data_type)
    tables.create(root, pa.table({"id": [0, 1, 2, 3], "d": moments}))
    expected = [0, 2, 3] if far > 0 else [0, 3]
    assert ids(lakeport.scan(root).where("d > '2000-01-01'")) == expected
    assert ids(lakeport.scan(root).where("d < '2000-01-01'")) == [i for i in range(4) if i not in expected]
    tables.update(root, {"id": "id + 10"}, where="d = '2019-04-14'")
    tables.delete(root, "d < '2000-01-01'")
    assert ids(lakeport.scan(root)) == ([2, 10, 13] if far > 0 else [10, 13])


def test_names_of_every_kind_are_selected_and_filtered() -> None:
    names = ["a.b", "a`b", "x y", "é", 'q"q', "straße", "STRASSE"]
    table = TableBuilder(memory_engine(), ROOT, struct(a=struct(b="long"), **dict.fromkeys(names, "long")))
    data = {name: list(range(10)) for name in names} | {"a": [{"b": i + 100} for i in range(10)]}
    table.create().commit(table.add(data, stats=None, row_group_size=5))
    view = frame(table)
    for name in names:
        quoted = f"`{name.replace('`', '``')}`"
        assert view.select(name).where(f"{quoted} = 7").to_arrow().to_pylist() == [{name: 7}]
        assert view.select(quoted).where(col(quoted) == 7).to_arrow().to_pylist() == [{name: 7}]
    assert view.select("É").where("É = 7").count() == 1
    assert view.where("a.b = 107").count() == 1


# Threads and files


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """After the test, no thread of ours runs and no file is open that was not before."""

    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    before = open_files()
    yield
    gc.collect()
    assert [t.name for t in threading.enumerate() if t.name == "lakeport-reader"] == []
    assert open_files() <= before


def on_disk(tmp_path: Path) -> TableBuilder:
    table = TableBuilder(default_engine(), str(tmp_path), struct(id="long")).create()
    return table.commit(*(table.add({"id": list(range(100))}, row_group_size=10) for _ in range(8)))


@pytest.mark.usefixtures("nothing_left")
def test_a_read_that_is_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    view = frame(on_disk(tmp_path))
    for stream in (view.to_batches(3), view.limit(700).to_batches(3), view.to_reader()):
        assert next(iter(stream)).num_rows
        del stream


@pytest.mark.usefixtures("nothing_left")
def test_a_failure_in_a_reader_reaches_who_asked_and_leaves_nothing_behind(tmp_path: Path) -> None:
    view = frame(on_disk(tmp_path))
    gone, broken = (Path(file.path) for file in view.files()[4:6])
    broken.write_bytes(b"PAR1" + b"\xff" * 100 + b"PAR1")
    with pytest.raises(CorruptTableError, match=broken.name):
        view.to_arrow()
    gone.unlink()
    with pytest.raises(MissingFileError, match=gone.name):
        view.to_arrow()


@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb"])
def test_a_missing_package_is_asked_for(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    view = frame(orders())
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'lakeport\[{package}\]'"):
        getattr(view, f"to_{package}")()


# Changes


def changing() -> TableBuilder:
    """Versions 0 to 3 with one row each, and the change data feed on."""
    table = TableBuilder(
        memory_engine(), ROOT, struct(id="long", name="string"), (), {"delta.enableChangeDataFeed": "true"}
    )
    table.create(table.add({"id": [0]}))
    for number in (1, 2, 3):
        table.commit(table.add({"id": [number]}))
    return table


def test_changes_read_what_the_frame_was_narrowed_to() -> None:
    view = frame(changing()).select("id").where("id > 0").limit(2).changes(0)
    assert view.schema.names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    assert view.to_arrow().select(["id", "_commit_version"]).to_pylist() == [
        {"id": 1, "_commit_version": 1},
        {"id": 2, "_commit_version": 2},
    ]
    assert view.count() == 2


def test_changes_end_at_the_version_of_the_frame() -> None:
    table = changing()
    view = frame(table)
    assert view.at(version=2).changes(1).to_polars()["id"].to_list() == [1, 2]
    assert view.at(version=2).changes(1, 3).count() == 3
    assert view.version == 3
    table.commit(table.add({"id": [4]}))
    assert (view.changes(3).count(), frame(table).changes(3).count()) == (1, 2)
    later = view.changes(0, 4)
    assert later.count() == 5
    assert (later.feed.start, later.feed.end) == (0, 4)


def test_changes_end_at_the_version_that_the_frame_is_found_to_have() -> None:
    table = changing()
    asked_later, asked_first = frame(table), frame(table)
    changes = asked_later.changes(0)
    assert asked_later.version == 3
    assert asked_first.changes(0).feed.end == 3
    table.commit(table.add({"id": [4]}))
    assert (changes.feed.end, changes.count()) == (3, 4)
    assert asked_first.version == 3


def test_threads_that_open_changes_at_once_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    view = frame(changing()).changes(0, 3)
    barrier, opened = threading.Barrier(2), view.source.changes

    def open_together(*given: Any) -> Any:
        barrier.wait(30)
        return opened(*given)

    monkeypatch.setattr(view.source, "changes", open_together)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: view.feed, range(2))
    assert one is other


def test_threads_that_open_a_table_at_once_read_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    view = frame(changing())
    barrier, opened = threading.Barrier(2), view.source.snapshot

    def open_together(*given: Any) -> Any:
        barrier.wait(30)
        return opened(*given)

    monkeypatch.setattr(view.source, "snapshot", open_together)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda ask: ask(view), [lambda v: v.definition, lambda v: v.snapshot])
    assert one is other


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickled": lambda view: pickle.loads(pickle.dumps(view)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_stay_at_the_version(tmp_path: Path, copied: Callable[[Any], Any]) -> None:
    path = str(tmp_path)
    tables.create(path, {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": "true"})
    view = lakeport.scan(path).select("id").where("id > 1")
    at_a_time = lakeport.scan(path).at(timestamp=view.snapshot.timestamp)
    changes, unasked = lakeport.scan(path).changes(start_timestamp=0), view.changes(0)
    assert (ids(view), at_a_time.version, changes.count()) == ([2], 0, 2)
    copies = [copied(each) for each in (view, at_a_time, changes, unasked)]
    fresh = copied(lakeport.scan(path))
    tables.append(path, {"id": [3]})
    assert [ids(each) for each in copies] == [[2], [1, 2], [1, 2], [2]]
    assert (fresh.version, view.version) == (1, 0)


def test_a_pickled_range_without_commits_stays_empty(tmp_path: Path) -> None:
    path = str(tmp_path)
    tables.create(path, {"id": [1]}, properties={"delta.enableChangeDataFeed": "true"})
    tables.append(path, {"id": [2]})
    for version, second in enumerate((1_000, 2_000)):
        os.utime(tmp_path / "_delta_log" / f"{version:020d}.json", (second, second))
    changes = lakeport.scan(path).changes(start_timestamp=1_200_000, end_timestamp=1_300_000)
    assert changes.count() == 0
    assert pickle.loads(pickle.dumps(changes)).count() == 0


def test_changes_take_times_as_at_does() -> None:
    view = frame(changing())
    assert view.changes(start_timestamp="1970-01-01").count() == 4
    assert view.changes(start_timestamp=0, end_timestamp="2999-01-01T00:00:00Z").count() == 4
    assert view.changes(1, end_timestamp=datetime(2999, 1, 1)).count() == 3
    assert view.changes(start_timestamp=datetime(1970, 1, 1, tzinfo=UTC), end=1).count() == 2


def test_changes_refuse_a_start_that_is_missing_or_given_twice() -> None:
    view = frame(changing())
    for arguments in ({}, {"start": 0, "start_timestamp": 0}, {"start": "2026-01-01"}, {"start": 1.5}):
        with pytest.raises(ValueError, match=r"start version|is not a version"):
            view.changes(**arguments)
    with pytest.raises(ValueError, match="end version"):
        view.changes(0, 1, end_timestamp=0)
    with pytest.raises(ValueError, match="is not a time"):
        view.changes(start_timestamp="yesterday")


def test_changes_explain_what_a_read_would_do() -> None:
    text = frame(changing()).changes(0).where("_commit_version >= 2").limit(5).explain()
    assert "versions  0 to 3" in text
    assert "files     2, " in text
    assert "on rows   nothing: partitions and commits suffice" in text
    assert "limit     5" in text


def test_changes_can_be_filtered_by_the_current_time(tmp_path: Path) -> None:
    path = str(tmp_path)
    tables.create(path, {"id": [1]}, properties={"delta.enableChangeDataFeed": "true"})
    tables.append(path, {"id": [2]})
    os.utime(tmp_path / "_delta_log" / f"{0:020d}.json", (0, 0))
    changes = lakeport.scan(path).changes(0)
    for text in (
        "_commit_timestamp > current_timestamp() - INTERVAL 1 DAY",
        "CAST(_commit_timestamp AS DATE) > current_date() - INTERVAL 2 DAYS",
        "_commit_timestamp < current_timestamp() + INTERVAL 1 HOUR AND id = 2",
    ):
        recent = changes.where(text)
        assert (recent.to_arrow()["id"].to_pylist(), recent.count()) == ([2], 1)


def test_changes_go_where_rows_go() -> None:
    view = frame(changing()).changes(0)
    assert view.to_pandas().shape == (4, 5)
    assert view.to_duckdb().filter("_change_type = 'insert'").count("*").fetchall() == [(4,)]
    assert view.to_reader().read_all() == view.to_arrow()
    assert [batch.num_rows for batch in view.to_batches(1)] == [1, 1, 1, 1]
    with pytest.raises(UnknownColumnError, match="_change_type"):
        view.select("nothing")
