"""A transaction makes, changes and replaces tables: all of it becomes visible by one commit, or none."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakeport.engine import default_engine, memory_engine
from lakeport.errors import TableNotFoundError, UnknownColumnError, UnsupportedFeatureError
from lakeport.kernel.deletion_vectors import write_deletion_vectors
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import col
from lakeport.kernel.schema import PrimitiveType, StructField
from lakeport.kernel.transaction import create_table, update_table
from lakeport.kernel.transaction.transaction import replace_table
from lakeport.kernel.write import decode_adds
from lakeport.testing.builder import TableBuilder, protocol, read, struct
from tests.conftest import ROOT as PROJECT
from tests.kernel.writing import actions_of, add, append, latest, new_table, only, removing, values

ROOT = "memory://table"
SCHEMA = struct(id="long", day="string")


@pytest.fixture
def engine() -> Engine:
    return memory_engine()


# Creating


def test_a_new_table_has_its_protocol_its_metadata_and_its_rows_in_version_0(engine: Engine) -> None:
    transaction = create_table(
        engine, ROOT, SCHEMA, ["DAY"], {"user.owner": "me"}, name="orders", description="all of them"
    )
    add(transaction, {"id": [1, 2], "day": ["a", "b"]})
    with pytest.raises(TableNotFoundError):
        latest(engine, ROOT)
    assert transaction.commit().version == 0
    snapshot = latest(engine, ROOT)
    assert snapshot.partition_columns == ("day",)
    assert (snapshot.metadata.name, snapshot.metadata.description) == ("orders", "all of them")
    assert snapshot.properties == {"user.owner": "me"}
    assert snapshot.schema == SCHEMA
    assert values(snapshot) == [1, 2]
    [told] = only(actions_of(engine, ROOT, 0), "protocol")
    assert told == {"minReaderVersion": 1, "minWriterVersion": 2}


def test_a_table_can_be_clustered_by_nested_columns(engine: Engine) -> None:
    schema = struct(id="long", at=struct(x="long"))
    transaction = create_table(engine, ROOT, schema, clustering_columns=["at.x", "id"])
    transaction.commit()
    snapshot = latest(engine, ROOT)
    domain = json.loads(snapshot.domain_metadata["delta.clustering"])
    assert domain == {"clusteringColumns": [["at", "x"], ["id"]], "domainName": "delta.clustering"}
    assert {"clustering", "domainMetadata"} <= set(snapshot.protocol.writer_features or ())
    assert update_table(snapshot, "WRITE").definition.clustering_columns == (("at", "x"), ("id",))


def test_clustering_columns_of_a_mapped_table_are_physical_and_have_statistics(engine: Engine) -> None:
    properties = {"delta.columnMapping.mode": "name", "delta.dataSkippingNumIndexedCols": "0"}
    transaction = create_table(engine, ROOT, struct(id="long", n="long"), (), properties, clustering_columns=["n"])
    add(transaction, {"id": [1], "n": [5]}).commit()
    physical = transaction.schema.resolve(("n",))[0].physical_name("name")
    assert physical != "n"
    assert transaction.definition.clustering_columns == ((physical,),)
    [file] = only(actions_of(engine, ROOT, 0), "add")
    assert json.loads(file["stats"])["minValues"] == {physical: 5}


def test_what_no_table_can_be_is_refused(engine: Engine) -> None:
    with pytest.raises(ValueError, match="either partitioned or clustered"):
        create_table(engine, ROOT, SCHEMA, ["day"], clustering_columns=["id"])
    with pytest.raises(UnknownColumnError):
        create_table(engine, ROOT, SCHEMA, clustering_columns=["nothing"])


# Replacing


def test_a_replaced_table_has_other_columns_and_rows_and_keeps_its_history(engine: Engine) -> None:
    before = new_table(engine, ROOT, SCHEMA, ["day"], rows={"id": [1, 2], "day": ["a", "b"]})
    transaction = replace_table(before, struct(name="string"))
    add(transaction, {"name": ["x"]}).commit()
    after = latest(engine, ROOT)
    assert (after.version, after.metadata.id) == (1, before.metadata.id)
    assert after.partition_columns == ()
    assert values(after, "name") == ["x"]
    assert values(before) == [1, 2]
    assert len(only(actions_of(engine, ROOT, 1), "remove")) == 2


def test_a_replaced_table_is_clustered_only_if_it_is_asked_for(engine: Engine) -> None:
    create_table(engine, ROOT, SCHEMA, clustering_columns=["id"]).commit()
    replace_table(latest(engine, ROOT), SCHEMA, clustering_columns=["day"]).commit()
    assert '[["day"]]' in latest(engine, ROOT).domain_metadata["delta.clustering"]
    replace_table(latest(engine, ROOT), SCHEMA, ["day"]).commit()
    [domain] = only(actions_of(engine, ROOT, 2), "domainMetadata")
    assert (domain["domain"], domain["removed"]) == ("delta.clustering", True)
    after = latest(engine, ROOT)
    assert "delta.clustering" not in after.domain_metadata
    assert update_table(after, "WRITE").definition.clustering_columns == ()
    replace_table(after, SCHEMA).commit()
    assert not only(actions_of(engine, ROOT, 3), "domainMetadata")


def test_a_table_that_only_takes_appends_is_replaced_only_while_it_is_empty(engine: Engine) -> None:
    empty = new_table(engine, ROOT, SCHEMA, properties={"delta.appendOnly": "true"})
    replace_table(empty, SCHEMA, properties={"delta.appendOnly": "true"}).commit()
    append(latest(engine, ROOT), {"id": [1], "day": ["a"]})
    with pytest.raises(UnsupportedFeatureError, match="append-only"):
        replace_table(latest(engine, ROOT), SCHEMA)
    switched_off = removing(latest(engine, ROOT))
    switched_off.definition = switched_off.definition.with_properties({"delta.appendOnly": "false"})
    with pytest.raises(UnsupportedFeatureError, match="append-only"):
        switched_off.commit()
    assert values(latest(engine, ROOT)) == [1]


def test_the_history_of_a_replaced_table_keeps_its_timestamps(engine: Engine) -> None:
    new_table(engine, ROOT, SCHEMA)
    on = {"delta.enableInCommitTimestamps": "true"}
    switching = update_table(latest(engine, ROOT), "SET TBLPROPERTIES")
    switching.definition = switching.definition.with_properties(on)
    switching.commit()
    replace_table(latest(engine, ROOT), struct(n="long"), properties=on).commit()
    after = latest(engine, ROOT)
    assert after.properties["delta.inCommitTimestampEnablementVersion"] == "1"
    assert [commit.version for commit in after.history()] == [2, 1, 0]


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@pytest.mark.parametrize("before", ["none", "name", "id"])
def test_a_table_is_replaced_in_any_mode_of_column_mapping(engine: Engine, before: str, mode: str) -> None:
    rows = {"id": [1, 2], "day": ["a", "b"]}
    old = new_table(engine, ROOT, SCHEMA, properties={"delta.columnMapping.mode": before}, rows=rows)
    replacing = replace_table(old, old.schema, properties={"delta.columnMapping.mode": mode})
    add(replacing, {"id": [3], "day": ["c"]}).commit()
    assert read(latest(engine, ROOT)).to_pylist() == [{"id": 3, "day": "c"}]
    assert values(old) == [1, 2]


# What cannot be written


@pytest.mark.parametrize(
    "features", [["icebergCompatV3"], ["materializePartitionColumns"], ["a-novelty", "zeal"], ["identityColumns"]]
)
def test_a_writer_feature_that_is_not_known_is_refused_by_name(engine: Engine, features: list[str]) -> None:
    schema = SCHEMA
    if features == ["identityColumns"]:  # known, but only where no column uses it
        schema = struct(StructField("id", PrimitiveType("long"), True, {"delta.identity.start": 1}), day="string")
    table = TableBuilder(engine, ROOT, schema, protocol=protocol(writer_only=features)).create()
    assert read(table.snapshot()).num_rows == 0
    with pytest.raises(UnsupportedFeatureError) as caught:
        update_table(table.snapshot(), "WRITE")
    assert list(caught.value.features) == features
    assert all(name in str(caught.value) for name in features)


def test_a_writer_version_that_is_not_known_is_refused(engine: Engine) -> None:
    table = TableBuilder(engine, ROOT, SCHEMA, protocol=protocol(writer=8)).create()
    with pytest.raises(UnsupportedFeatureError, match="writer version 8"):
        update_table(table.snapshot(), "WRITE")


def test_rows_of_an_append_only_table_stay(engine: Engine) -> None:
    snapshot = new_table(engine, ROOT, SCHEMA, properties={"delta.appendOnly": "true"}, rows={"id": [1], "day": ["a"]})
    with pytest.raises(UnsupportedFeatureError, match=r"append-only \(delta.appendOnly\)") as caught:
        removing(snapshot).commit()
    assert caught.value.features == ("appendOnly",)
    moving = update_table(snapshot, "OPTIMIZE")
    moving.remove_files(moving.plan(snapshot.scan_builder().with_log_details().build()), data_change=False)
    assert moving.commit().version == 1


def test_a_table_whose_only_column_is_void_takes_no_rows(engine: Engine) -> None:
    transaction = create_table(engine, ROOT, struct(nothing="void"))
    with pytest.raises(UnsupportedFeatureError, match="every column is a partition column or void"):
        transaction.write_context()


# Files


def test_a_removed_file_is_told_with_all_that_is_known_of_it(engine: Engine) -> None:
    snapshot = new_table(engine, ROOT, SCHEMA, ["day"], rows={"id": [1], "day": ["a b"]})
    transaction = removing(snapshot)
    transaction.commit()
    [added] = only(actions_of(engine, ROOT, 0), "add")
    [removed] = only(actions_of(engine, ROOT, 1), "remove")
    assert removed == {
        "path": added["path"],
        "dataChange": True,
        "deletionTimestamp": transaction.started,
        "extendedFileMetadata": True,
        "partitionValues": {"day": "a b"},
        "size": added["size"],
    }


def test_a_deletion_vector_is_set_and_taken_away(engine: Engine) -> None:
    on = {"delta.enableDeletionVectors": "true"}
    snapshot = new_table(engine, ROOT, SCHEMA, properties=on, rows={"id": [1, 2, 3], "day": ["a"] * 3})
    transaction = update_table(snapshot, "DELETE")
    [file] = transaction.plan(snapshot.scan_builder().with_log_details().build())
    [vector] = write_deletion_vectors(engine.storage, ROOT, [np.array([1], dtype=np.uint64)])
    transaction.set_deletion_vector(file, vector)
    transaction.commit()
    without = latest(engine, ROOT)
    assert values(without) == [1, 3]
    [added] = only(actions_of(engine, ROOT, 1), "add")
    assert json.loads(added["stats"])["tightBounds"] is False
    restoring = update_table(without, "RESTORE")
    [file] = restoring.plan(without.scan_builder().with_log_details().build())
    restoring.set_deletion_vector(file, None)
    restoring.commit()
    assert values(latest(engine, ROOT)) == [1, 2, 3]
    [removed] = only(actions_of(engine, ROOT, 2), "remove")
    assert removed["deletionVector"] == added["deletionVector"]


# Applications and domains


def test_an_applications_work_is_known_from_its_commit_on(engine: Engine) -> None:
    snapshot = new_table(engine, ROOT, SCHEMA)
    transaction = update_table(snapshot, "WRITE")
    assert transaction.application_version("app") is None
    transaction.set_application_version("app", 3)
    transaction.commit()
    after = update_table(latest(engine, ROOT), "WRITE")
    assert after.application_version("app") == 3
    [told] = only(actions_of(engine, ROOT, 1), "txn")
    assert told == {"appId": "app", "version": 3, "lastUpdated": transaction.started}


def test_a_domain_is_set_and_removed(engine: Engine) -> None:
    snapshot = new_table(engine, ROOT, SCHEMA)
    transaction = update_table(snapshot, "WRITE")
    transaction.set_domain("mine", '{"a":1}')
    transaction.commit()
    after = latest(engine, ROOT)
    assert after.domain_metadata == {"mine": '{"a":1}'}
    assert "domainMetadata" in (after.protocol.writer_features or ())
    removing_it = update_table(after, "WRITE")
    removing_it.remove_domain("mine")
    removing_it.commit()
    assert latest(engine, ROOT).domain_metadata == {}


def test_domains_that_are_deltas_own_or_not_there_are_refused(engine: Engine) -> None:
    transaction = update_table(new_table(engine, ROOT, SCHEMA), "WRITE")
    with pytest.raises(ValueError, match=r"'delta\.clustering' is reserved for Delta"):
        transaction.set_domain("delta.clustering", "{}")
    with pytest.raises(ValueError, match="has no metadata domain 'mine'"):
        transaction.remove_domain("mine")
    assert transaction.changes_nothing


# Workers

WORKER = """
import sys
import pyarrow as pa
from lakeport.engine import default_engine
from lakeport.workers.writing import write_rows
from lakeport.kernel.write import WriteContext, encode_adds

context = WriteContext.from_bytes(sys.stdin.buffer.read())
first = int(sys.argv[1])
rows = pa.record_batch({"id": [first, first + 1], "day": ["a", "b/ü"]})
sys.stdout.buffer.write(encode_adds(write_rows(default_engine(), context, [rows])))
"""


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_remote_workers_get_a_context_as_bytes_and_hand_back_their_files_as_bytes(tmp_path: Path, mode: str) -> None:
    engine, root = default_engine(), str(tmp_path / "table")
    properties = {"delta.columnMapping.mode": mode, "delta.constraints.positive": "id >= 0"}
    snapshot = new_table(engine, root, SCHEMA, ["day"], properties)
    transaction = update_table(snapshot, "WRITE")
    context = transaction.write_context().to_bytes()
    for first in (10, 20, 30):
        worker = subprocess.run(
            [sys.executable, "-c", WORKER, str(first)], input=context, stdout=subprocess.PIPE, check=True, cwd=PROJECT
        )
        transaction.add_files(decode_adds(worker.stdout))
    assert values(latest(engine, root)) == []
    assert transaction.commit().version == 1
    after = latest(engine, root)
    expected = {first + i: day for first in (10, 20, 30) for i, day in enumerate(["a", "b/ü"])}
    assert dict(zip(*read(after).to_pydict().values(), strict=True)) == expected
    assert list(read(after, col("day") == "b/ü")["id"].to_pylist()) == [11, 21, 31]
    if mode == "none":
        theirs = DeltaTable(root).to_pyarrow_table().to_pydict()
        assert dict(zip(theirs["id"], theirs["day"], strict=True)) == expected


def test_a_worker_refuses_rows_that_break_a_constraint(tmp_path: Path) -> None:
    properties = {"delta.constraints.positive": "id >= 0"}
    snapshot = new_table(default_engine(), str(tmp_path / "table"), SCHEMA, properties=properties)
    context = update_table(snapshot, "WRITE").write_context().to_bytes()
    worker = subprocess.run([sys.executable, "-c", WORKER, "-1"], input=context, capture_output=True, cwd=PROJECT)
    assert b"row 0 violates the constraint 'positive' (id >= 0): id = -1" in worker.stderr
    assert [file.name for file in (tmp_path / "table").rglob("*.parquet")] == []


def test_the_metadata_tells_whether_anything_is_changed(engine: Engine) -> None:
    snapshot = new_table(engine, ROOT, SCHEMA, properties={"user.a": "1"})
    transaction = update_table(snapshot, "SET TBLPROPERTIES")
    transaction.definition = transaction.definition.with_properties({"user.a": "1"})
    assert transaction.changes_nothing
    transaction.definition = transaction.definition.with_properties({"user.a": "2"})
    assert not transaction.changes_nothing
    transaction.commit()
    assert latest(engine, ROOT).properties == {"user.a": "2"}


def test_a_snapshot_stays_what_it_was_while_others_commit(engine: Engine) -> None:
    snapshot = new_table(engine, ROOT, SCHEMA, rows={"id": [1], "day": ["a"]})
    append(snapshot, pa.table({"id": [2], "day": ["b"]}))
    assert values(snapshot) == [1]
    assert values(snapshot.refresh()) == [1, 2]
