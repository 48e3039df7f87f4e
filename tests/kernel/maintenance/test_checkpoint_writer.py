"""A checkpoint that is written here is the table, whoever reads it: our reader, deltalake, a plain Parquet reader."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeport
from lakeport.engine import ComposedEngine, default_engine, engine_over
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.errors import LakeportError, StorageError
from lakeport.kernel.log import FileColumns
from lakeport.kernel.maintenance import checkpoint_writer, write_checkpoint
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.testing.builder import Action, TableBuilder, mapped, protocol, remove, rows, struct
from tests.acceptance.comparing import assert_same_rows
from tests.acceptance.real_tables import chosen, is_shareable, path_of

DAY = 86_400_000
NOW = 1_000 * DAY
V2 = {"delta.checkpointPolicy": "v2"}
STRUCT = {"delta.checkpoint.writeStatsAsStruct": "true"}
NO_JSON = {"delta.checkpoint.writeStatsAsJson": "false"}
FORMS = {
    "classic": {},
    "classic, parsed too": STRUCT,
    "classic, parsed only": STRUCT | NO_JSON,
    "classic, no statistics": NO_JSON,
    "v2": V2,
    "v2, parsed too": V2 | STRUCT,
}
OLDER = ["none", "classic", "parts", "v2-json", "v2-json-sidecars", "v2-parquet-sidecars", "v2-classic"]

each_form = pytest.mark.parametrize("form", FORMS)


def engine_at(now: int = NOW, storage: Any = None) -> ComposedEngine:
    return engine_over(storage or default_engine().storage, lambda: now)


def new_table(root: str, engine: ComposedEngine | None = None, **options: Any) -> TableBuilder:
    schema = struct(id="long", name="string", at="timestamp", price="decimal(10,2)", day="date")
    options = {"protocol": protocol(features=["deletionVectors", "v2Checkpoint"]), "partition_by": ["day"]} | options
    return TableBuilder(engine or engine_at(), root, options.pop("schema", schema), **options)


def filled(table: TableBuilder) -> TableBuilder:
    """Adds, removes, deletion vectors, application transactions, domains and odd paths over several versions."""
    days = ["2026-01-01", "2026-01-02", None]
    adds = [table.add({"id": [n, n + 1], "name": ["a", None]}, {"day": days[n % 3]}) for n in range(6)]
    odd = table.add({"id": [7]}, {"day": "2026-01-03"}, name="day=x y/ü%.parquet", path="day=x%20y/%C3%BC%25.parquet")
    table.create(*adds, odd, {"txn": {"appId": "app", "version": 1, "lastUpdated": NOW - DAY}})
    old, new = table.delete(adds[0], [0])
    table.commit(
        old, new, remove(adds[1]), {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
    )
    gone = {"domainMetadata": {"domain": "gone", "configuration": "", "removed": True}}
    return table.commit(remove(adds[2]), adds[1], gone, {"txn": {"appId": "other", "version": 9}})


def leave_only_the_checkpoint(snapshot: Snapshot) -> None:
    """Removes the commits and the other checkpoints, as far as they are files."""
    log = Path(snapshot.root) / "_delta_log"
    number = f"{snapshot.version:020d}"
    for file in log.glob("0*"):
        if not file.name.startswith(f"{number}.checkpoint"):
            file.unlink()


def live_files(snapshot: Snapshot) -> list[dict[str, Any]]:
    columns = FileColumns(snapshot.physical_partition_columns, row_tracking=True)
    files = [row for batch in snapshot.live_files(columns) for row in batch.to_pylist()]
    return sorted(files, key=repr)


def stored_actions(snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    """The actions in the bare Parquet files of the newest checkpoint, sidecars included."""
    log = Path(snapshot.root) / "_delta_log"
    tops = list(log.glob(f"{snapshot.version:020d}.checkpoint*.parquet"))
    assert len(tops) == 1
    found = _actions(tops[0])
    for sidecar in found.get("sidecar", []):
        file = log / "_sidecars" / sidecar["path"]
        assert file.stat().st_size == sidecar["sizeInBytes"]
        for kind, actions in _actions(file).items():
            found.setdefault(kind, []).extend(actions)
    return found


def _actions(file: Path) -> dict[str, list[dict[str, Any]]]:
    table = pq.read_table(file)
    cells = {name: [cell for cell in table.column(name).to_pylist() if cell] for name in table.column_names}
    assert sum(map(len, cells.values())) == table.num_rows
    return {name: found for name, found in cells.items() if found}


def read_by_deltalake(path: Path | str) -> list[tuple[Any, ...]]:
    read = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t")
    return [tuple(row.values()) for row in pa.table(read).to_pylist()]


def hint(table: TableBuilder) -> Action:
    found: Action = json.loads(table.engine.storage.read(table.log_file("_last_checkpoint")))
    return found


@each_form
@pytest.mark.parametrize("older", OLDER)
def test_the_checkpoint_alone_is_the_table(tmp_path: Path, form: str, older: str) -> None:
    table = filled(new_table(str(tmp_path), properties=FORMS[form]))
    if older != "none":
        table.checkpoint(version=1, form=older, parsed_stats="parquet" in older)
    before = table.snapshot()
    write_checkpoint(table.engine, before)
    written = stored_actions(before)
    expected_rows, expected_files = rows(before), live_files(before)
    leave_only_the_checkpoint(before)
    after = table.snapshot()
    assert after.version == before.version
    assert after.segment.commits == ()
    assert rows(after) == expected_rows
    assert live_files(after) == expected_files
    assert (after.protocol, after.metadata.configuration) == (before.protocol, before.metadata.configuration)
    assert after.domain_metadata == {"d": "{}"}
    assert (after.transaction_version("app"), after.transaction_version("other")) == (1, 9)
    assert hint(table)["version"] == 2
    assert hint(table)["size"] == sum(map(len, written.values()))
    assert hint(table)["numOfAddFiles"] == len(written["add"]) == len(expected_files)
    assert {add["dataChange"] for add in written["add"]} == {False}


@each_form
@pytest.mark.parametrize("features", [["v2Checkpoint"], ["v2Checkpoint", "columnMapping"]], ids=["plain", "mapped"])
def test_deltalake_reads_it(tmp_path: Path, form: str, features: list[str]) -> None:
    properties = FORMS[form] | ({"delta.columnMapping.mode": "name"} if "columnMapping" in features else {})
    schema = struct(id="long", name="string", day="date")
    table = new_table(
        str(tmp_path),
        schema=mapped(schema) if "columnMapping" in features else schema,
        properties=properties,
        protocol=protocol(features=features),
    )
    names = [f.physical_name("name") if "columnMapping" in features else f.name for f in table.schema]
    adds = [table.add({names[0]: [n], names[1]: [f"n{n}"]}, {names[2]: f"2026-01-0{n + 1}"}) for n in range(5)]
    table.create(*adds[:4]).commit(remove(adds[0])).commit(adds[4])
    snapshot = table.snapshot()
    write_checkpoint(table.engine, snapshot)
    leave_only_the_checkpoint(snapshot)
    assert DeltaTable(tmp_path).version() == 2
    assert sorted(read_by_deltalake(tmp_path)) == rows(snapshot)
    assert len(DeltaTable(tmp_path).file_uris()) == 4


def test_nothing_of_an_add_is_lost(tmp_path: Path) -> None:
    table = new_table(str(tmp_path))
    more: Action = {
        "tags": {"a": "1", "b": "x"},
        "clusteringProvider": "liquid",
        "baseRowId": 5,
        "defaultRowCommitVersion": 3,
    }
    first = table.add({"id": [1]}, {"day": "2026-01-01"}, name="one", **more)
    second = table.add({"id": [2]}, {"day": None}, name="two", tags={"c": "2"})
    third = table.add({"id": [3]}, {"day": ""}, name="three", stats=None)
    table.create(first, second, third)
    for _ in range(2):  # the second one is made from the first one
        write_checkpoint(table.engine, table.snapshot())
        by_path = {add["path"]: add for add in stored_actions(table.snapshot())["add"]}
        for add in (first, second, third):
            stored = by_path[add["add"]["path"]]
            kept = {name: dict(v) if name in ("tags", "partitionValues") and v else v for name, v in stored.items()}
            whole = dict.fromkeys(kept) | add["add"] | {"dataChange": False}
            assert kept == whole
        table.commit()


def test_tags_that_differ_from_file_to_file_stay_apart(tmp_path: Path) -> None:
    table = new_table(str(tmp_path))
    tags = [{"x": "1", "y": "2"} if n % 2 == 0 else {"x": "3"} for n in range(1000)]
    body = {"partitionValues": {"day": "2026-01-01"}, "size": 1, "modificationTime": 0, "dataChange": True}
    adds = [{"add": {"path": f"{'f' * 200}{n:04d}", **body, "tags": tags[n]}} for n in range(1000)]
    table.create().commit(*adds)
    write_checkpoint(table.engine, table.snapshot())
    stored = sorted(stored_actions(table.snapshot())["add"], key=lambda add: str(add["path"]))
    assert [dict(add["tags"]) for add in stored] == tags


def test_tombstones_stay_until_they_expire(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), properties={"delta.deletedFileRetentionDuration": "interval 3 days"})
    adds = [table.add({"id": [n]}, {"day": None}, name=f"f{n}") for n in range(5)]
    kept, table_key = table.delete(adds[3], [0])
    ages = [2 * DAY, 4 * DAY, None]
    removes = []
    for add, age in zip(adds, ages, strict=False):
        body: Action = {"path": add["add"]["path"], "dataChange": True, "size": 7, "partitionValues": {"day": None}}
        removes.append({"remove": body | ({} if age is None else {"deletionTimestamp": NOW - age})})
    kept["remove"] |= {"deletionTimestamp": NOW}
    table.create(*adds).commit(*removes, kept, table_key)
    write_checkpoint(table.engine, table.snapshot())
    for later, expected in ((0, ["f0", "f3"]), (DAY + 1, ["f3"]), (4 * DAY, [])):
        table.commit()
        write_checkpoint(engine_at(NOW + later), table.snapshot())
        found = stored_actions(table.snapshot())
        assert sorted(r["path"] for r in found.get("remove", [])) == expected
        assert {r["dataChange"] for r in found.get("remove", [])} <= {False}
        assert {r["size"] for r in found.get("remove", []) if r["path"] == "f0"} <= {7}
    assert sorted(add["path"] for add in found["add"]) == ["f3", "f4"]


def test_a_file_that_is_added_again_has_no_tombstone(tmp_path: Path) -> None:
    table = new_table(str(tmp_path))
    add = table.add({"id": [1]}, {"day": None}, name="f", path="%66")
    gone = {"remove": {"path": "f", "dataChange": True, "deletionTimestamp": NOW}}
    table.create(add).commit(gone)
    write_checkpoint(table.engine, table.snapshot())
    assert [r["path"] for r in stored_actions(table.snapshot())["remove"]] == ["f"]
    table.commit(add)
    write_checkpoint(table.engine, table.snapshot())
    found = stored_actions(table.snapshot())
    assert ("remove" in found, [a["path"] for a in found["add"]]) == (False, ["%66"])


def test_application_transactions_expire_only_if_the_table_says_so(tmp_path: Path) -> None:
    for retention, expected in ((None, {"old", "new", "timeless"}), ("interval 2 days", {"new", "timeless"})):
        properties = {"delta.setTransactionRetentionDuration": retention} if retention else {}
        table = new_table(str(tmp_path / str(retention)), properties=properties)
        ages = {"old": {"lastUpdated": NOW - 3 * DAY}, "new": {"lastUpdated": NOW - DAY}, "timeless": {}}
        table.create(*({"txn": {"appId": app, "version": 1, **age}} for app, age in ages.items()))
        write_checkpoint(table.engine, table.snapshot())
        assert {txn["appId"] for txn in stored_actions(table.snapshot())["txn"]} == expected


def test_statistics_and_partition_values_are_typed_where_the_table_wants_it(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), properties=STRUCT)
    values = {"id": [1, 5], "name": ["b", "a"], "price": [1, 2]}
    table.create(table.add(values, {"day": "2026-02-03"}), table.add({"id": [3]}, {"day": None}, stats=None))
    write_checkpoint(table.engine, table.snapshot())
    typed, without = sorted(stored_actions(table.snapshot())["add"], key=lambda add: add["stats"] is None)
    assert json.loads(typed["stats"])["numRecords"] == typed["stats_parsed"]["numRecords"] == 2
    assert typed["stats_parsed"]["minValues"] | {"price": None, "at": None} == {
        "id": 1,
        "name": "a",
        "at": None,
        "price": None,
    }
    assert str(typed["stats_parsed"]["maxValues"]["price"]) == "2.00"
    assert typed["stats_parsed"]["nullCount"]["id"] == 0
    assert str(typed["partitionValues_parsed"]["day"]) == "2026-02-03"
    assert (without["stats_parsed"], without["partitionValues_parsed"]) == (None, {"day": None})


def test_the_typed_statistics_are_of_the_columns_that_get_statistics(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), properties=STRUCT | {"delta.dataSkippingNumIndexedCols": "1"})
    clustering = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["price"]]}', "removed": False}
    values = {"id": [1], "name": ["a"], "price": [1]}
    table.create(table.add(values, {"day": None}), {"domainMetadata": clustering})
    write_checkpoint(table.engine, table.snapshot())
    (add,) = stored_actions(table.snapshot())["add"]
    assert list(add["stats_parsed"]["minValues"]) == list(add["stats_parsed"]["nullCount"]) == ["id", "price"]


def test_text_is_made_of_statistics_that_a_checkpoint_had_only_parsed(tmp_path: Path) -> None:
    table = new_table(str(tmp_path))
    table.create(table.add({"id": [1, 5], "name": ["b", None]}, {"day": None})).checkpoint(parsed_stats=True)
    table.commit()
    write_checkpoint(table.engine, table.snapshot())
    (add,) = stored_actions(table.snapshot())["add"]
    stats = json.loads(add["stats"])
    assert (stats["numRecords"], stats["minValues"]["id"], stats["maxValues"]["id"]) == (2, 1, 5)
    assert stats["nullCount"]["name"] == 1


def test_sidecars_share_the_files_among_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_writer, "SIDECAR_ROWS", 4)
    table = new_table(str(tmp_path), properties=V2)
    adds = [table.add({"id": [n]}, {"day": None}, name=f"f{n:02d}") for n in range(10)]
    table.create(*adds[:7]).commit(*adds[7:], {"remove": {"path": "x", "deletionTimestamp": NOW, "dataChange": True}})
    write_checkpoint(table.engine, table.snapshot())
    found = stored_actions(table.snapshot())
    assert [pq.read_metadata(f).num_rows for f in sorted(tmp_path.glob("_delta_log/_sidecars/*"))].count(4) == 2
    assert len(found["sidecar"]) == 3
    assert (len(found["add"]), len(found["remove"])) == (10, 1)
    (metadata,) = found["checkpointMetadata"]
    assert (metadata["version"], dict(metadata["tags"])["sidecarNumActions"]) == (1, "11")
    leave_only_the_checkpoint(table.snapshot())
    assert len(rows(table.snapshot())) == len(read_by_deltalake(tmp_path)) == 10


def test_a_table_without_files_has_checkpoints_too(tmp_path: Path) -> None:
    for policy in ({}, V2):
        table = new_table(str(tmp_path / str(len(policy))), properties=policy).create()
        write_checkpoint(table.engine, table.snapshot())
        leave_only_the_checkpoint(table.snapshot())
        assert rows(table.snapshot()) == []
        assert read_by_deltalake(table.root) == []


def test_the_policy_counts_only_with_the_feature(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), properties=V2, protocol=protocol()).create()
    write_checkpoint(table.engine, table.snapshot())
    assert (tmp_path / "_delta_log/00000000000000000000.checkpoint.parquet").exists()


@pytest.mark.parametrize("policy", [{}, V2], ids=["classic", "v2"])
def test_a_second_checkpoint_of_a_version_changes_nothing(tmp_path: Path, policy: dict[str, str]) -> None:
    table = filled(new_table(str(tmp_path), properties=policy))
    write_checkpoint(table.engine, table.snapshot())
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    write_checkpoint(table.engine, table.snapshot())
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_a_hint_never_goes_back(tmp_path: Path) -> None:
    table = filled(new_table(str(tmp_path)))
    write_checkpoint(table.engine, table.snapshot())
    write_checkpoint(table.engine, table.snapshot(1))
    assert hint(table)["version"] == 2
    assert (tmp_path / "_delta_log/00000000000000000001.checkpoint.parquet").exists()


def test_only_what_is_newer_than_the_last_checkpoint_is_read(tmp_path: Path) -> None:
    table = filled(new_table(str(tmp_path)))
    early = table.snapshot()
    rows(early)
    write_checkpoint(table.engine, early)
    table.commit(table.add({"id": [70]}, {"day": None}))
    latest = early.refresh()
    for version in range(3):  # a snapshot that began before the checkpoint need not have its commits any more
        (tmp_path / f"_delta_log/{version:020d}.json").unlink()
    write_checkpoint(table.engine, latest)
    leave_only_the_checkpoint(latest)
    assert len(rows(table.snapshot())) == len(rows(early)) + 1


def test_a_snapshot_that_lives_long_goes_on_from_a_newer_checkpoint() -> None:
    table = new_table("memory:///t", engine_at(storage=MemoryStorage())).create()
    snapshot, most = table.snapshot(), 0
    body = {"partitionValues": {"day": None}, "size": 1, "modificationTime": 0, "dataChange": True}
    for version in range(1, 251):
        table.commit({"add": {"path": f"f{version}", **body}})
        snapshot = snapshot.refresh()
        most = max(most, len(snapshot.segment.commits))
        if version % 10 == 0:
            write_checkpoint(table.engine, snapshot)
    assert 100 <= most <= 120
    assert len(live_files(snapshot)) == 250
    assert snapshot.version == 250


class FailingStorage(MemoryStorage):
    """Fails at the n-th file that is written, before or after the file is there."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.after = 1_000_000, False

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self.left -= 1
        if self.left != 0 or self.after:
            super().write(path, data, overwrite=overwrite)
        if self.left == 0:
            raise StorageError("the storage failed", path=path)


@pytest.mark.parametrize("policy", [{}, V2], ids=["classic", "v2"])
@pytest.mark.parametrize("after", [False, True])
def test_a_table_opens_whenever_a_writer_dies(policy: dict[str, str], after: bool) -> None:
    failures = 0
    for moment in range(1, 6):
        storage = FailingStorage()
        table = filled(new_table("memory:///t", engine_at(storage=storage), properties=policy))
        expected = rows(table.snapshot())
        storage.left, storage.after = moment, after
        try:
            write_checkpoint(table.engine, table.snapshot())
        except LakeportError:
            failures += 1
        storage.left = 1_000_000
        assert rows(table.snapshot()) == expected
        table.commit(table.add({"id": [100]}, {"day": None}))
        write_checkpoint(table.engine, table.snapshot())
        assert len(rows(table.snapshot())) == len(expected) + 1
    assert failures >= 2


def test_a_checksum_is_written_where_the_version_has_none(tmp_path: Path) -> None:
    table = filled(new_table(str(tmp_path), properties={"delta.enableInCommitTimestamps": "true"}))
    table.commit({"commitInfo": {"inCommitTimestamp": 12345}})
    snapshot = table.snapshot()
    write_checkpoint(table.engine, snapshot)
    checksum = json.loads((tmp_path / "_delta_log/00000000000000000003.crc").read_text())
    files = live_files(snapshot)
    assert (checksum["numFiles"], checksum["tableSizeBytes"]) == (len(files), sum(f["size"] for f in files))
    assert (checksum["numDeletionVectorsOpt"], checksum["numDeletedRecordsOpt"]) == (1, 1)
    assert checksum["inCommitTimestampOpt"] == 12345
    assert {t["appId"]: t["version"] for t in checksum["setTransactions"]} == {"app": 1, "other": 9}
    assert [d["domain"] for d in checksum["domainMetadata"]] == ["d"]
    assert table.snapshot().metadata == snapshot.metadata


def copied(name: str, folder: Path) -> Path:
    """A copy of the log; the data files are links."""
    source, target = Path(path_of(name)), folder / "table"
    shutil.copytree(source, target, copy_function=_copy_or_link)
    return target


def _copy_or_link(source: str, target: str) -> None:
    if "_delta_log" in source:
        shutil.copy2(source, target)
    else:
        Path(target).symlink_to(source)


@chosen(is_shareable)
@pytest.mark.parametrize("properties", [{}, STRUCT], ids=["plain", "parsed"])
def test_a_checkpoint_of_a_real_table_is_that_table(tmp_path: Path, name: str, properties: dict[str, str]) -> None:
    path = copied(name, tmp_path)
    version = Table.for_path(default_engine(), str(path)).latest_snapshot().version
    if all((path / f"_delta_log/{number:020d}.json").exists() for number in range(version + 1)):
        for file in path.glob(f"_delta_log/{version:020d}.checkpoint*"):
            file.unlink()
    before = Table.for_path(default_engine(), str(path)).latest_snapshot()
    before.metadata.configuration.update(properties)
    expected, files, domains = lakeport.scan(str(path)).to_arrow(), live_files(before), before.domain_metadata
    write_checkpoint(engine_at(0), before)
    leave_only_the_checkpoint(before)
    after = Table.for_path(default_engine(), str(path)).latest_snapshot()
    assert after.version == version
    assert_same_rows(lakeport.scan(str(path)).to_arrow(), expected)
    assert live_files(after) == files
    assert after.domain_metadata == domains
