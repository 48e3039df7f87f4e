"""`vacuum`: what no version needs any more goes, and nothing else does."""

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport import tables
from lakeport.engine import engine_over, memory_engine
from lakeport.engine.clock import system_clock
from lakeport.engine.storage.storage import Storage
from lakeport.errors import MissingFileError, StorageError, UnsupportedFeatureError
from lakeport.kernel.engine import FileStatus
from lakeport.tables import VacuumResult
from lakeport.testing.builder import TableBuilder, protocol, struct
from tests.properties import FEED, MAPPED, VECTORS
from tests.rows import ids
from tests.tables.maintained import DAY, data_files, later, live_files, numbers, table_of

WEEK = 7 * DAY


def vacuum_now(target: str, **options: Any) -> VacuumResult:
    """As if all that there is were old, and nobody needed an older version."""
    return tables.vacuum(target, retention=0, enforce_retention=False, dry_run=False, engine=later(1000), **options)


def age(target: str, days: int, *paths: str) -> None:
    """Files, or all there are, as if they had been written so long ago."""
    for path in paths or data_files(target):
        moment = (system_clock() - days * DAY) / 1000
        os.utime(Path(target) / path, (moment, moment))


@pytest.mark.parametrize("retention", ["2 days", "interval 48 hours", timedelta(days=2), 48, 48.0])
def test_a_retention_is_text_or_a_timedelta_or_hours(tmp_path: Path, retention: Any) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    assert not tables.vacuum(target, retention=retention, enforce_retention=False, engine=later(DAY)).files
    assert len(tables.vacuum(target, retention=retention, enforce_retention=False, engine=later(3 * DAY)).files) == 2


@pytest.mark.parametrize("retention", ["a while", "7", -1, float("nan"), timedelta(-1), [7]])
def test_what_is_no_retention_is_refused(tmp_path: Path, retention: Any) -> None:
    with pytest.raises(ValueError, match=r"invalid retention .*: pass an interval such as '7 days'"):
        tables.vacuum(table_of(tmp_path, 1), retention=retention, enforce_retention=False)


def test_a_dry_run_is_the_default_and_deletes_nothing(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    old = data_files(target)
    tables.optimize(target)
    result = tables.vacuum(target, engine=later(WEEK + DAY))
    assert set(result.files) == old
    assert result.bytes == result.metrics["sizeOfDataToDelete"] == sum((Path(target) / f).stat().st_size for f in old)
    assert not result.deleted
    assert data_files(target) > old
    assert lakeport.scan(target).version == result.version == 3


def test_what_was_removed_before_the_retention_goes(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    old = data_files(target)
    tables.optimize(target)
    result = tables.vacuum(target, dry_run=False, engine=later(WEEK + DAY))
    assert (set(result.files), result.deleted) == (old, True)
    assert data_files(target) == live_files(target)
    assert ids(target) == list(range(30))
    with pytest.raises(MissingFileError):
        ids(target, version=2)


def test_what_was_removed_within_the_retention_stays(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    tables.optimize(target)
    age(target, 100)  # the files are old, but their removal is not
    result = tables.vacuum(target, dry_run=False, engine=later(WEEK - DAY))
    assert result.files == ()
    assert ids(target, version=2) == list(range(30))


def test_a_file_that_no_commit_names_goes_once_it_is_old(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1)
    stray = Path(target) / "sub" / "part-left-over.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"half a file")
    assert tables.vacuum(target).files == ()
    age(target, 8, "sub/part-left-over.parquet")
    assert tables.vacuum(target, dry_run=False).files == ("sub/part-left-over.parquet",)
    assert not stray.exists()


def test_start_and_end_are_versions_of_their_own(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    result = tables.vacuum(target, retention=timedelta(days=8), dry_run=False, engine=later(2 * WEEK))
    end, start = tables.history(target, 2)
    assert (start.operation, end.operation, end.version) == ("VACUUM START", "VACUUM END", result.version)
    assert start.info["operationParameters"] == {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": str(WEEK),
        "specifiedRetentionMillis": str(8 * DAY),
    }
    assert start.info["operationMetrics"] == {"numFilesToDelete": "2", "sizeOfDataToDelete": str(result.bytes)}
    assert end.info["operationParameters"] == {"status": "COMPLETED"}
    assert end.info["operationMetrics"]["numDeletedFiles"] == "2"
    assert ids(target) == list(range(20))


@pytest.mark.parametrize("retention", [1, timedelta(hours=1)])
def test_a_retention_below_the_tables_needs_to_be_meant(tmp_path: Path, retention: Any) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    engine = later(2 * 3_600_000)
    with pytest.raises(ValueError, match=r"1 hours is shorter than the table's 168 hours .*enforce_retention=False"):
        tables.vacuum(target, retention=retention, engine=engine)
    assert len(tables.vacuum(target, retention=retention, enforce_retention=False, engine=engine).files) == 2
    with pytest.raises(ValueError, match="none may be negative"):
        tables.vacuum(target, retention=-retention, enforce_retention=False)


def test_the_tables_own_retention_counts(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, {"delta.deletedFileRetentionDuration": "interval 1 hour"})
    tables.optimize(target)
    assert len(tables.vacuum(target, engine=later(2 * 3_600_000)).files) == 2
    assert tables.vacuum(target, retention=3, engine=later(2 * 3_600_000)).files == ()


def test_a_longer_retention_finds_what_a_checkpoint_has_forgotten(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, {"delta.deletedFileRetentionDuration": "interval 1 hour"})
    tables.optimize(target)
    tables.checkpoint(target, engine=later(DAY))
    age(target, 100)
    assert tables.vacuum(target, retention=5 * 24, engine=later(DAY)).files == ()
    assert len(tables.vacuum(target, engine=later(DAY)).files) == 2


def test_tombstones_in_a_checkpoint_count(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    age(target, 100)
    tables.checkpoint(target)
    for commit in (Path(target) / "_delta_log").glob("*.json"):
        commit.unlink()
    assert tables.vacuum(target).files == ()
    assert len(tables.vacuum(target, engine=later(WEEK + DAY)).files) == 2


def test_deletion_vectors_go_with_the_versions_that_need_them(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1, VECTORS, rows=100)
    for number in range(3):
        tables.delete(target, f"id = {number}")
    vectors = {path for path in data_files(target) if path.endswith(".bin")}
    assert len(vectors) == 3
    age(target, 100)
    assert tables.vacuum(target).files == ()
    result = vacuum_now(target)
    assert len(result.files) == 2
    assert set(result.files) < vectors
    assert ids(target) == list(range(3, 100))


def test_change_data_goes_by_its_age(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1, FEED, rows=100)
    tables.update(target, {"id": "id + 1000"}, "id < 5")
    change = next(path for path in data_files(target) if path.startswith("_change_data/"))
    assert change not in tables.vacuum(target, engine=later(WEEK - DAY)).files
    age(target, 100, change)  # written long before it was committed
    assert change not in tables.vacuum(target).files
    assert change in tables.vacuum(target, engine=later(WEEK + DAY)).files


def test_names_that_are_not_data_are_never_touched(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1)
    kept = ["_SUCCESS", ".hidden", "_notes/a.txt", ".git/config", "sub/_temporary/x", "sub/.part.crc", "_other=1/x"]
    gone = ["plain.txt", "sub/x.parquet", "_change_data/cdc-old.parquet"]
    for path in kept + gone:
        (Path(target) / path).parent.mkdir(parents=True, exist_ok=True)
        (Path(target) / path).write_text("x")
    assert set(vacuum_now(target).files) == set(gone)
    assert set(kept) < data_files(target)
    assert ids(target) == list(range(10))


def test_a_partition_directory_is_data_whatever_it_begins_with(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, pa.table({"id": [1, 2], "_day": ["a", ".b"]}), partition_by=["_day"])
    tables.delete(target, "_day = 'a'")
    result = vacuum_now(target)
    assert [path.partition("/")[0] for path in result.files] == ["_day=a"]
    assert ids(target) == [2]


def test_another_table_below_the_root_is_not_touched(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1)
    inner = f"{target}/archive/inner"
    tables.create(inner, numbers(0, 5))
    (Path(target) / "archive" / "stray.parquet").write_text("x")
    assert vacuum_now(target).files == ("archive/stray.parquet",)
    assert ids(inner) == list(range(5))


def test_the_iceberg_form_of_the_table_is_not_touched(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1)
    commit = Path(target) / "_delta_log" / f"{0:020d}.json"
    formats = '"configuration":{"delta.universalFormat.enabledFormats":"iceberg"}'
    commit.write_text(commit.read_text().replace('"configuration":{}', formats))
    (Path(target) / "_delta_log" / f"{0:020d}.crc").unlink()
    (Path(target) / "metadata").mkdir()
    (Path(target) / "metadata" / "v1.metadata.json").write_text("{}")
    assert vacuum_now(target).files == ()


def test_odd_names_are_compared_decoded(tmp_path: Path) -> None:
    target = str(tmp_path / "100% öd")
    names = ["a b", "50%", "%20", "x/y", "#?&=", "10:30", "São Paulo", "北京", "'quoted\"", "a\\b", "e\u0301", None]
    data = pa.table({"id": range(len(names)), "city": pa.array(names, pa.string())})
    tables.create(target, data, partition_by=["city"])
    assert vacuum_now(target).files == ()
    tables.delete(target, "id = 2")
    (gone,) = vacuum_now(target).files
    assert gone.startswith("city=%2520/")
    assert ids(target) == [i for i in range(len(names)) if i != 2]


def test_a_table_with_column_mapping_keeps_its_files(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    data = pa.table({"id": [1, 2], "the day": ["a b", "c"]})
    tables.create(target, data, partition_by=["the day"], properties={**MAPPED, **VECTORS})
    tables.append(target, data)
    tables.optimize(target)
    assert len(vacuum_now(target).files) == 4
    assert ids(target) == [1, 1, 2, 2]


class TestPathsThatTheLogSpellsInItsOwnWay:
    """A live file must be known again however the log names it, and what lies elsewhere is nobody's business here."""

    def table(self, tmp_path: Path, spelling: str) -> tuple[str, Path]:
        builder = TableBuilder(later(0), str(tmp_path / "t"), struct(id="long"))
        builder.create()
        add = builder.add({"id": [1, 2]})
        file = Path(builder.root) / add["add"]["path"]
        add["add"]["path"] = spelling.format(root=builder.root, name=file.name, parent=tmp_path)
        builder.commit(add)
        return builder.root, file

    @pytest.mark.parametrize(
        "spelling",
        [
            "{root}/{name}",
            "file://{root}/{name}",
            "file:{root}/{name}",
            "../t/{name}",
            "./{name}",
            "{parent}//t/{name}",
        ],
    )
    def test_a_live_file_stays(self, tmp_path: Path, spelling: str) -> None:
        root, file = self.table(tmp_path, spelling)
        assert vacuum_now(root).files == ()
        assert file.exists()

    def test_a_live_file_stays_when_the_root_is_a_link(self, tmp_path: Path) -> None:
        root, file = self.table(tmp_path, "{root}/{name}")
        os.symlink(root, tmp_path / "link")
        assert vacuum_now(str(tmp_path / "link")).files == ()
        assert file.exists()

    def test_a_removed_file_outside_of_the_root_stays(self, tmp_path: Path) -> None:
        outside = tmp_path / "elsewhere" / "part.parquet"
        outside.parent.mkdir()
        outside.write_text("x")
        root, _ = self.table(tmp_path, "{name}")
        builder = TableBuilder(later(0), root, struct(id="long"))
        for number, path in enumerate([str(outside), "../elsewhere/part.parquet"]):
            remove = {"path": path, "dataChange": True, "deletionTimestamp": 1}
            builder.commit({"remove": remove}, version=2 + number)
        assert vacuum_now(root).files == ()
        assert outside.exists()


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.parquet").write_text("x")
    os.symlink(outside, Path(target) / "link")
    assert vacuum_now(target).files == ()
    assert (outside / "precious.parquet").exists()


def test_a_table_that_cannot_be_written_is_not_vacuumed() -> None:
    engine = memory_engine()
    unknown = protocol(features=["vacuumProtocolCheck"], writer_only=["fromTheFuture"])
    TableBuilder(engine, "memory:///t", struct(id="long"), protocol=unknown).create()
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        tables.vacuum("memory:///t", engine=engine)


def test_a_table_with_the_protocol_check_is_vacuumed(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, {"delta.feature.vacuumProtocolCheck": "supported"})
    tables.optimize(target)
    assert len(vacuum_now(target).files) == 2


class _Interrupted(Storage):
    """Another writer commits as soon as the files are listed."""

    def __init__(self, interrupt: Callable[[], object]) -> None:
        super().__init__()
        self._interrupt = interrupt

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        yield from super().list_all(directory)
        self._interrupt()


def test_what_others_restore_meanwhile_stays(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    engine = engine_over(_Interrupted(lambda: tables.restore(target, version=1)), lambda: system_clock() + 1000)
    result = tables.vacuum(target, retention=0, enforce_retention=False, dry_run=False, engine=engine)
    operations = [commit.operation for commit in tables.history(target, 3)]
    assert operations == ["VACUUM END", "VACUUM START", "RESTORE"]
    assert result.files == ()
    assert ids(target) == list(range(20))


def test_a_change_of_the_table_meanwhile_is_no_conflict(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    engine = engine_over(_Interrupted(lambda: tables.set_properties(target, {"a": "b"})), lambda: system_clock() + 1000)
    result = tables.vacuum(target, retention=0, enforce_retention=False, dry_run=False, engine=engine)
    assert (len(result.files), result.version) == (2, 5)


class _Stubborn(Storage):
    """Files that cannot be removed."""

    def delete(self, paths: Sequence[str]) -> None:
        raise StorageError("the storage failed", path=paths[0])


def test_a_failure_is_recorded_and_raised(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    engine = engine_over(_Stubborn(), lambda: system_clock() + 1000)
    with pytest.raises(StorageError):
        tables.vacuum(target, retention=0, enforce_retention=False, dry_run=False, engine=engine)
    commit = tables.history(target, 1)[0]
    assert (commit.operation, commit.info["operationParameters"]) == ("VACUUM END", {"status": "FAILED"})
    assert ids(target) == list(range(20))


def test_progress_counts_files(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    tables.optimize(target)
    told: list[tuple[int, int]] = []
    vacuum_now(target, progress=lambda done, total: told.append((done, total)))
    assert told == [(3, 3)]


def test_a_table_of_deltalake_is_vacuumed_and_read_back_by_it(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    cities = ["São Paulo", "a b", "50%", "x/y", "北京"]
    for start in range(0, 15, 5):
        data = pa.table({"id": range(start, start + 5), "city": cities})
        write_deltalake(target, data, mode="append", partition_by=["city"])
    DeltaTable(target).delete("id = 7")
    DeltaTable(target).optimize.compact()
    assert len(vacuum_now(target).files) == 15
    theirs = DeltaTable(target)
    assert len(data_files(target)) == len(theirs.file_uris()) == 5
    read = duckdb.from_arrow(theirs.to_pyarrow_table())
    assert read.aggregate("count(*), sum(id)").fetchall() == [(14, 105 - 7)]


def test_the_result_is_what_deltalake_would_delete(tmp_path: Path) -> None:
    target = table_of(tmp_path, 4)
    tables.delete(target, "id < 15")
    ours = tables.vacuum(target, retention=0, enforce_retention=False, engine=later(1000))
    theirs = DeltaTable(target).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True)
    assert sorted(ours.files) == sorted(theirs)
    assert ours.metrics == {"numFilesToDelete": 2, "sizeOfDataToDelete": ours.bytes}
