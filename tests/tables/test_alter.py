"""Columns, properties, constraints, history and checkpoints of a table."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport import tables
from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import (
    CommitConflictError,
    ConstraintError,
    InvalidDataError,
    UnknownColumnError,
    UnsupportedFeatureError,
)
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.testing.builder import TableBuilder, mapped, protocol, struct
from tests.properties import FEED, MAPPED, TRACKING, VECTORS
from tests.rows import ids, rows_of
from tests.tables.maintained import changed_rows, later, numbers, table_of

LONG = PrimitiveType("long")


def snapshot_of(target: str) -> Snapshot:
    return Table.for_path(later(0), target).latest_snapshot()


def last_commit(target: str) -> dict[str, Any]:
    return tables.history(target, 1)[0].info


def field(target: str, *path: str) -> Any:
    return snapshot_of(target).schema.resolve(path)[-1]


class TestAddColumns:
    def test_new_columns_are_null_in_old_rows(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1, rows=1)
        tables.add_columns(target, {"price": "decimal(10, 2)", "tags": "array<string>"}, comments={"price": "in €"})
        tables.append(target, pa.table({"id": [1], "price": [1.5], "tags": [["a"]]}))
        found = rows_of(target)
        assert found[0] == {"id": 0, "price": None, "tags": None}
        assert (str(found[1]["price"]), found[1]["tags"]) == ("1.50", ["a"])
        assert field(target, "price").metadata == {"comment": "in €"}

    def test_the_history_has_the_columns(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        tables.add_columns(target, {"n": "int"})
        info = last_commit(target)
        assert info["operation"] == "ADD COLUMNS"
        column = {"name": "n", "type": "integer", "nullable": True, "metadata": {}}
        assert json.loads(info["operationParameters"]["columns"]) == [{"column": column}]

    def test_an_arrow_schema_names_columns_as_they_are(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1, MAPPED)
        tables.add_columns(target, pa.schema([("a.b", pa.int32()), ("c", pa.struct([("d", pa.string())]))]))
        assert lakeport.scan(target).schema.names == ["id", "a.b", "c"]

    def test_text_names_columns_too(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        tables.add_columns(target, "price double comment 'in euro', `a.b` array<int>")
        assert field(target, "price").metadata["comment"] == "in euro"
        assert snapshot_of(target).schema.names[-2:] == ("price", "a.b")
        with pytest.raises(ValueError, match="must be nullable"):
            tables.add_columns(target, "other int not null")

    @pytest.mark.parametrize(
        ("columns", "comments", "message"),
        [
            ({5: "int"}, {}, "the name of a column must be text, not 5"),
            ({"a": 5}, {}, "5 is not a type"),
            (5, {}, "int is not a schema"),
            ({"a": "int"}, {"a": 5}, "the comment on 'a' must be text, not 5"),
        ],
    )
    def test_what_is_no_column_is_refused(self, tmp_path: Path, columns: Any, comments: Any, message: str) -> None:
        target = table_of(tmp_path, 1)
        with pytest.raises(ValueError, match=message):
            tables.add_columns(target, columns, comments=comments)
        assert lakeport.scan(target).version == 0

    def test_a_field_of_a_struct_is_added(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        tables.create(target, pa.table({"id": [1], "at": [{"x": 1}], "many": [[{"x": 1}]]}), properties=MAPPED)
        tables.add_columns(target, {"at.y": "string", "many.element.y": pa.int64()})
        assert rows_of(target) == [{"id": 1, "at": {"x": 1, "y": None}, "many": [{"x": 1, "y": None}]}]

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"ID": "int"}, "the column 'ID' already exists"),
            ({"a": "integr"}, "'integr' is not a type"),
            ({"a": "array<int"}, "is not a type"),
            ({"a": "struct<>"}, "is not a type"),
            ({"nowhere.a": "int"}, "unknown column 'nowhere'"),
            ({"with space": "int"}, "delta.columnMapping.mode"),
            (pa.schema([pa.field("a", pa.int32(), nullable=False)]), "must be nullable"),
        ],
    )
    def test_what_cannot_be_is_refused(self, tmp_path: Path, columns: Any, message: str) -> None:
        target = table_of(tmp_path, 1)
        with pytest.raises(ValueError, match=message):
            tables.add_columns(target, columns)
        assert lakeport.scan(target).version == 0

    def test_an_append_meanwhile_does_no_harm(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        assert tables.add_columns(target, {"n": "int"}, engine=_interrupted(target)).version == 2
        assert ids(target) == [-5, *range(10)]

    @pytest.mark.parametrize("mode", ["name", "id"])
    def test_columns_of_another_mapped_table_get_ids_and_names_of_their_own(self, tmp_path: Path, mode: str) -> None:
        by_mode = {"delta.columnMapping.mode": mode}
        other, target = str(tmp_path / "other"), str(tmp_path / "t")
        tables.create(other, pa.table({"x": [1], "at": [{"y": 2}]}), properties=by_mode)
        tables.create(target, pa.table({"id": [5]}), properties=by_mode)
        tables.add_columns(target, snapshot_of(other).schema)
        assert rows_of(target) == [{"id": 5, "x": None, "at": None}]
        assert [field(target, *path).field_id for path in (("id",), ("x",), ("at",), ("at", "y"))] == [1, 2, 3, 4]
        tables.append(target, {"id": [6], "x": [7], "at": [{"y": 8}]})
        assert rows_of(lakeport.scan(target).where("x = 7")) == [{"id": 6, "x": 7, "at": {"y": 8}}]

    def test_names_that_are_kept_for_others_are_refused(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1, FEED, MAPPED)
        with pytest.raises(ValueError, match=r"'_change_type'.* reserved for the change data feed"):
            tables.add_columns(target, {"_change_type": "string"})
        with pytest.raises(ValueError, match=r"'_commit_version'.* reserved for the change data feed"):
            tables.rename_column(target, "id", "_commit_version")
        with pytest.raises(ValueError, match="'__lakeport_row_index'"):
            tables.append(target, numbers(50, 1, __lakeport_row_index=1), merge_schema=True)


class TestRenameAndDrop:
    def test_a_table_without_column_mapping_says_how_to_get_it(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        with pytest.raises(ValueError, match=r"Set delta.columnMapping.mode to 'name' first"):
            tables.rename_column(target, "id", "key")
        with pytest.raises(ValueError, match=r"Set delta.columnMapping.mode to 'name' first"):
            tables.drop_columns(target, ["id"])
        tables.set_properties(target, MAPPED)
        tables.rename_column(target, "id", "key")
        assert sorted(lakeport.scan(target).to_arrow().column("key").to_pylist()) == list(range(10))
        assert field(target, "key").physical_name("name") == "id"

    def test_a_renamed_column_keeps_its_values(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        data = pa.table({"id": [1, 2], "day": ["a b", "c"], "at": [{"x": 1}, {"x": 2}]})
        properties = {**MAPPED, "delta.dataSkippingStatsColumns": "id,at.x"}
        tables.create(target, data, partition_by=["day"], properties=properties)
        tables.rename_column(target, "day", "the day")
        tables.rename_column(target, "at.x", "easting")
        tables.append(target, pa.table({"id": [3], "the day": ["c"], "at": [{"easting": 3}]}))
        assert rows_of(lakeport.scan(target).where("`the day` = 'c'")) == [
            {"id": 2, "the day": "c", "at": {"easting": 2}},
            {"id": 3, "the day": "c", "at": {"easting": 3}},
        ]
        snapshot = snapshot_of(target)
        assert snapshot.metadata.partition_columns == ("the day",)
        assert snapshot.properties["delta.dataSkippingStatsColumns"] == "id,at.easting"
        assert tables.history(target)[1].info["operationParameters"] == {
            "oldColumnPath": "at.x",
            "newColumnPath": "easting",
        }

    def test_a_column_stays_where_it_is(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        tables.create(target, pa.table({"at": [{"x": 1}], "id": [1]}), properties=MAPPED)
        tables.rename_column(target, "at.x", "at.y")
        tables.rename_column(target, "id", "`at.id`")
        assert rows_of(target) == [{"at": {"y": 1}, "at.id": 1}]
        for column, name, message in (
            ("at.y", "other.y", "'other.y' has a dot"),
            ("`at.id`", "at.key", "'at.key' has a dot"),
            ("at.y", 5, "the new name of a column must be text, not 5"),
            (5, "id", "a column name must be text, not 5"),
        ):
            with pytest.raises(ValueError, match=message):
                tables.rename_column(target, column, name)  # type: ignore[arg-type]

    def test_a_dropped_column_does_not_come_back_by_its_name(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        properties = {**MAPPED, "delta.dataSkippingStatsColumns": "id,`a b`.c,secret"}
        data = pa.table({"id": [1], "secret": ["x"], "a b": [{"c": 1, "d": 2}]})
        tables.create(target, data, properties=properties)
        tables.drop_columns(target, ["secret", "`a b`.c"])
        assert last_commit(target)["operation"] == "DROP COLUMNS"
        assert snapshot_of(target).properties["delta.dataSkippingStatsColumns"] == "id"
        tables.add_columns(target, {"secret": "string"})
        assert rows_of(target) == [{"id": 1, "a b": {"d": 2}, "secret": None}]

    def test_columns_that_something_uses_stay(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        data = pa.table({"id": [1], "day": ["a"], "n": [1]})
        tables.create(target, data, partition_by=["day"], properties=MAPPED)
        tables.add_constraint(target, "positive", "n > 0")
        with pytest.raises(ValueError, match="the constraint 'positive' uses it"):
            tables.drop_columns(target, ["n"])
        with pytest.raises(ValueError, match="partitioned by it"):
            tables.drop_columns(target, ["day"])
        with pytest.raises(UnknownColumnError):
            tables.drop_columns(target, ["nothing"])

    def test_columns_in_invariants_and_generated_columns_stay(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        invariant = {"delta.invariants": json.dumps({"expression": {"expression": "at.v > n"}})}
        inner = StructType((StructField("v", LONG, True, invariant), StructField("w", LONG)))
        twice = StructField("twice", LONG, True, {"delta.generationExpression": "m * 2"})
        schema = StructType((StructField("n", LONG), StructField("m", LONG), StructField("at", inner), twice))
        tables.create(target, schema=schema, properties=MAPPED)
        for column in ("n", "at", "at.v"):
            with pytest.raises(ValueError, match=r"cannot be renamed: the invariant of 'at\.v' uses it"):
                tables.rename_column(target, column, "other")
        with pytest.raises(ValueError, match=r"the invariant of 'at\.v' uses it"):
            tables.drop_columns(target, ["n"])
        with pytest.raises(ValueError, match="the generated column 'twice' uses it"):
            tables.drop_columns(target, ["m"])
        tables.rename_column(target, "at.w", "other")
        tables.drop_columns(target, ["AT.v", "n", "twice", "m"])
        assert lakeport.scan(target).schema.names == ["at"]

    def test_a_constraint_that_is_not_understood_keeps_the_columns_that_it_names(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        schema, theirs = mapped(struct(id="long", n="long", m="long")), {"delta.constraints.odd": "theirs(`ID`)"}
        TableBuilder(later(0), target, schema, (), MAPPED | theirs, protocol(2, 5)).create()
        tables.rename_column(target, "n", "k")
        tables.drop_columns(target, ["m"])
        with pytest.raises(ValueError, match="the constraint 'odd' uses it"):
            tables.rename_column(target, "id", "key")
        assert lakeport.scan(target).schema.names == ["id", "k"]

    def test_a_column_that_the_table_is_clustered_by_stays(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        tables.create(target, pa.table({"id": [1], "n": [1]}), cluster_by=["n"], properties=MAPPED)
        tables.rename_column(target, "n", "m")
        with pytest.raises(ValueError, match="the clustering of the table uses it"):
            tables.drop_columns(target, ["m"])


class TestChangeColumn:
    def test_a_column_is_widened(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        tables.create(target, pa.table({"id": pa.array([1], pa.int32())}))
        with pytest.raises(ValueError, match=r"set delta\.enableTypeWidening"):
            tables.widen_column(target, "id", "bigint")
        tables.set_properties(target, {"delta.enableTypeWidening": "true"})
        tables.widen_column(target, "id", "bigint")
        tables.append(target, numbers(1 << 40, 1))
        assert ids(target) == [1, 1 << 40]
        with pytest.raises(ValueError, match="not wider"):
            tables.widen_column(target, "id", "int")
        with pytest.raises(ValueError, match="only primitive types"):
            tables.widen_column(target, "id", "array<int>")

    def test_a_column_in_a_generated_column_is_not_widened(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        integer = PrimitiveType("integer")
        plus = StructField("g", integer, True, {"delta.generationExpression": "a + 1"})
        schema = StructType((StructField("a", integer), StructField("b", integer), plus))
        tables.create(target, schema=schema, properties={"delta.enableTypeWidening": "true"})
        tables.add_constraint(target, "few", "b < 9")
        with pytest.raises(ValueError, match="the type of the column 'a' cannot be changed: the generated column 'g'"):
            tables.widen_column(target, "a", "long")
        with pytest.raises(ValueError, match="the type of the column 'a' cannot be changed: the generated column 'g'"):
            tables.append(target, {"a": [1 << 40]}, merge_schema=True)
        tables.widen_column(target, "b", "long")
        with pytest.raises(ConstraintError, match="few"):
            tables.append(target, {"a": [1], "b": [1 << 40]})

    def test_nulls_are_allowed(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        tables.create(target, schema=pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())]))
        with pytest.raises(ConstraintError):
            tables.append(target, {"n": [1]})
        tables.drop_not_null(target, "id")
        tables.append(target, {"n": [1]})
        assert rows_of(target) == [{"id": None, "n": 1}]

    def test_a_comment_is_set_and_taken_away(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        tables.set_comment(target, "id", "what it is")
        assert field(target, "id").metadata == {"comment": "what it is"}
        assert last_commit(target)["operation"] == "CHANGE COLUMN"
        tables.set_comment(target, "id", None)
        assert field(target, "id").metadata == {}
        assert tables.set_comment(target, "id", None).version == 2  # nothing to do

    def test_a_default_fills_what_is_not_given(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        tables.create(target, pa.table({"id": [1], "kind": ["a"]}))
        tables.set_default(target, "kind", "upper('new')")
        assert "allowColumnDefaults" in (snapshot_of(target).protocol.writer_features or ())
        tables.append(target, numbers(2, 1))
        tables.set_default(target, "kind", None)
        tables.append(target, numbers(3, 1))
        kinds = {row["id"]: row["kind"] for row in rows_of(target)}
        assert kinds == {1: "a", 2: "NEW", 3: None}

    @pytest.mark.parametrize("sql", ["'text'", "kind", "1 +", "CAST('x' AS BIGINT)"])
    def test_a_default_that_gives_no_value_is_refused(self, tmp_path: Path, sql: str) -> None:
        target = table_of(tmp_path, 1)
        with pytest.raises(ValueError):  # noqa: PT011  # each has words of its own
            tables.set_default(target, "id", sql)
        assert lakeport.scan(target).version == 0

    def test_what_is_no_text_is_refused(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        with pytest.raises(ValueError, match="a default is SQL, which must be text, not 5"):
            tables.set_default(target, "id", 5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="a default must be SQL text: write '5'"):
            tables.set_default(target, "id", lakeport.lit(5))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="'nope': a default cannot use columns"):
            tables.set_default(target, "id", "nope + 1")
        with pytest.raises(ValueError, match="a comment must be text, not 5"):
            tables.set_comment(target, "id", 5)  # type: ignore[arg-type]
        assert lakeport.scan(target).version == 0

    def test_a_nested_column_has_no_default(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        tables.create(target, pa.table({"at": [{"x": 1}]}))
        with pytest.raises(ValueError, match="cannot have a default"):
            tables.set_default(target, "at.x", "1")


class TestProperties:
    def test_properties_are_set_and_taken_away(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        tables.set_properties(target, {"owner": "me", "delta.checkpointInterval": "5"})
        assert json.loads(last_commit(target)["operationParameters"]["properties"])["owner"] == "me"
        tables.unset_properties(target, ["owner"])
        assert last_commit(target)["operation"] == "UNSET TBLPROPERTIES"
        assert snapshot_of(target).properties == {"delta.checkpointInterval": "5"}

    def test_what_cannot_be_set_or_unset_is_refused(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1, MAPPED)
        with pytest.raises(ValueError, match=r"spelled delta\.appendOnly"):
            tables.set_properties(target, {"delta.appendonly": "true"})
        with pytest.raises(ValueError, match="use add_constraint"):
            tables.set_properties(target, {"delta.constraints.x": "id > 0"})
        with pytest.raises(ValueError, match=r"has no property owner; it has delta\."):
            tables.unset_properties(target, ["owner"])
        with pytest.raises(ValueError, match="cannot be removed"):
            tables.unset_properties(target, ["delta.columnMapping.maxColumnId"])
        with pytest.raises(ValueError, match="mode"):
            tables.unset_properties(target, ["delta.columnMapping.mode"])
        with pytest.raises(UnsupportedFeatureError, match="icebergCompatV2"):
            tables.set_properties(target, {"delta.enableIcebergCompatV2": "true"})

    def test_deletion_vectors_are_switched_on_and_off(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        tables.set_properties(target, VECTORS)
        tables.delete(target, "id = 1")
        assert [file.deletion_vector is not None for file in lakeport.scan(target).files()] == [True]
        tables.unset_properties(target, list(VECTORS))
        tables.delete(target, "id = 2")
        assert [file.deletion_vector is not None for file in lakeport.scan(target).files()] == [False]
        assert ids(target) == [0, *range(3, 10)]

    def test_column_mapping_on_a_table_with_rows_keeps_the_names_in_the_files(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        data = pa.table({"id": [1], "at": [{"x": 1}], "day": ["a b"]})
        tables.create(target, data, partition_by=["day"])
        tables.set_properties(target, MAPPED)
        assert rows_of(target) == data.to_pylist()
        assert field(target, "at", "x").physical_name("name") == "x"
        tables.append(target, data)
        assert rows_of(target) == data.to_pylist() * 2

    def test_column_mapping_goes_by_the_names_in_the_files_whatever_the_schema_says(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        TableBuilder(later(0), target, mapped(struct(id="long", at=struct(x="long")))).create()
        data = {"id": [1], "at": [{"x": 1}]}
        tables.append(target, data)
        tables.set_properties(target, MAPPED)
        assert rows_of(target) == pa.table(data).to_pylist()
        tables.append(target, data)
        assert rows_of(target) == pa.table(data).to_pylist() * 2

    def test_a_table_made_from_the_schema_of_a_mapped_one_is_mapped_later(self, tmp_path: Path) -> None:
        other, target = table_of(tmp_path, 1, MAPPED), str(tmp_path / "t")
        tables.create(target, numbers(0, 3), schema=snapshot_of(other).schema)
        assert field(target, "id").metadata == {}
        tables.set_properties(target, MAPPED)
        assert ids(target) == [0, 1, 2]

    def test_the_change_data_feed_needs_its_names(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        tables.create(target, numbers(0, 1, _commit_version=1))
        with pytest.raises(ValueError, match=r"'_commit_version'.* reserved for the change data feed"):
            tables.set_properties(target, FEED)
        assert rows_of(target) == [{"id": 0, "_commit_version": 1}]

    def test_in_commit_timestamps_record_their_beginning(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 2)
        tables.set_properties(target, {"delta.enableInCommitTimestamps": "true"})
        assert snapshot_of(target).properties["delta.inCommitTimestampEnablementVersion"] == "2"
        tables.append(target, numbers(50, 1))
        times = [commit.timestamp for commit in tables.history(target)]
        assert times == sorted(times, reverse=True)

    def test_the_change_data_feed_is_switched_on(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        tables.set_properties(target, FEED)
        tables.delete(target, "id = 4")
        assert changed_rows(target, 2) == [(4, "delete")]


class TestRowTracking:
    def test_the_rows_of_a_table_get_ids_in_the_same_commit(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 3, VECTORS, FEED)
        tables.delete(target, "id = 11")
        stats = {file.path: file.stats for file in snapshot_of(target).scan_builder().with_stats().build().files()}
        version = tables.set_properties(target, TRACKING).version
        tracked = rows_of(lakeport.scan(target).with_row_tracking())
        assert [row["id"] for row in sorted(tracked, key=lambda row: row["id"])] == [i for i in range(30) if i != 11]
        assert len({row["_row_id"] for row in tracked}) == 29
        assert {row["_row_commit_version"] for row in tracked} == {version}
        again = {file.path: file.stats for file in snapshot_of(target).scan_builder().with_stats().build().files()}
        assert again == stats
        assert changed_rows(target, version) == []
        tables.append(target, numbers(100, 1))
        (new,) = rows_of(lakeport.scan(target).where("id = 100").with_row_tracking())
        assert new["_row_id"] == 30

    def test_files_without_statistics_are_counted(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        write_deltalake(target, numbers(0, 7))
        log = Path(target) / "_delta_log" / f"{0:020}.json"
        lines = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
        for line in lines:
            line.get("add", {}).pop("stats", None)
        log.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
        tables.set_properties(target, TRACKING)
        tables.append(target, numbers(7, 1))
        assert [row["_row_id"] for row in rows_of(lakeport.scan(target).with_row_tracking())] == list(range(8))

    def test_it_is_not_on_while_it_is_suspended(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        with pytest.raises(ValueError, match="cannot both be true"):
            tables.set_properties(target, {**TRACKING, "delta.rowTrackingSuspended": "true"})

    def test_an_append_meanwhile_conflicts_for_its_rows_would_have_no_ids(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 2)
        with pytest.raises(CommitConflictError):
            tables.set_properties(target, TRACKING, engine=_interrupted(target))
        assert "delta.enableRowTracking" not in snapshot_of(target).properties


class _Interrupted(Storage):
    """Another writer appends just before a commit."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target: str | None = target

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        if self._target is not None and "/_delta_log/" in path:
            target, self._target = self._target, None
            tables.append(target, numbers(-5, 1))
        super().write(path, data, overwrite=overwrite)


def _interrupted(target: str) -> Any:
    return engine_over(_Interrupted(target))


class TestConstraints:
    def test_a_constraint_holds_from_now_on(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 2)
        tables.add_constraint(target, "Positive", "id >= 0")
        assert snapshot_of(target).properties["delta.constraints.positive"] == "id >= 0"
        assert last_commit(target)["operationParameters"] == {"name": "Positive", "expr": "id >= 0"}
        with pytest.raises(ConstraintError, match="positive"):
            tables.append(target, numbers(-1, 1))
        with pytest.raises(ValueError, match="already has a constraint 'POSITIVE'"):
            tables.add_constraint(target, "POSITIVE", "id > 1")
        tables.drop_constraint(target, "POSITIVE")
        tables.append(target, numbers(-1, 1))
        with pytest.raises(ValueError, match="no constraint 'positive'; it has none"):
            tables.drop_constraint(target, "positive")

    def test_a_row_with_a_time_that_python_does_not_have_is_told_too(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))
        tables.create(target, pa.table({"id": [1], "at": far}))
        with pytest.raises(ConstraintError, match=f"at = {2**62}; change such rows"):
            tables.add_constraint(target, "near", "at < '2100-01-01'")

    def test_a_constraint_can_be_about_the_current_time(self, tmp_path: Path) -> None:
        target = str(tmp_path / "t")
        moments = pa.array([0, 2**52], pa.int64()).cast(pa.timestamp("us", "UTC"))
        tables.create(target, pa.table({"at": moments[:1]}))
        tables.add_constraint(target, "past", "at <= current_timestamp()")
        with pytest.raises(ConstraintError, match="past"):
            tables.append(target, pa.table({"at": moments[1:]}))

    @pytest.mark.parametrize("value", [17, None])
    def test_rows_that_are_there_are_checked_first(self, tmp_path: Path, value: int | None) -> None:
        target = table_of(tmp_path, 2, MAPPED, VECTORS)
        tables.append(target, {"id": pa.array([value], pa.int64())})
        tables.delete(target, "id = 7")
        with pytest.raises(ConstraintError, match=f"id = {'17' if value else 'None'}; change such rows") as caught:
            tables.add_constraint(target, "few", "id < 17 OR id > 17")
        assert caught.value.constraint == "few"
        tables.delete(target, "id = 17 OR id IS NULL")
        tables.add_constraint(target, "few", "id < 17 OR id > 17")

    def test_deleted_rows_do_not_count(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1, VECTORS)
        tables.delete(target, "id = 7")
        tables.add_constraint(target, "no_seven", "id <> 7")
        assert snapshot_of(target).version == 2

    def test_bad_conditions_are_refused(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        for sql in ("id >", "nothing > 1", "id + 1"):
            with pytest.raises(ValueError):  # noqa: PT011  # each has words of its own
                tables.add_constraint(target, "x", sql)
        with pytest.raises(InvalidDataError, match=r"'x' \(1 = 2\) names no column and is not true: no row can"):
            tables.add_constraint(target, "x", "1 = 2")
        with pytest.raises(ValueError, match="needs a name"):
            tables.add_constraint(target, " ", "id > -1")

    def test_what_is_no_text_is_refused(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        with pytest.raises(ValueError, match="a constraint must be SQL text: write 'id > 0'"):
            tables.add_constraint(target, "positive", lakeport.col("id") > 0)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="the name of a constraint must be text, not 5"):
            tables.add_constraint(target, 5, "id > 0")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="the name of a constraint must be text, not 5"):
            tables.drop_constraint(target, 5)  # type: ignore[arg-type]

    def test_rows_that_come_meanwhile_conflict(self, tmp_path: Path) -> None:
        target = table_of(tmp_path, 1)
        with pytest.raises(CommitConflictError):
            tables.add_constraint(target, "positive", "id >= 0", engine=_interrupted(target))
        assert ids(target)[0] == -5


def test_history_is_newest_first_and_limited(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    assert [commit.version for commit in tables.history(target)] == [2, 1, 0]
    assert [commit.operation for commit in tables.history(target, 1)] == ["WRITE"]
    with pytest.raises(ValueError, match="0 or more"):
        tables.history(target, -1)


def test_a_checkpoint_is_written_now(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    assert tables.checkpoint(target).version == 2
    assert tables.checkpoint(target).version == 2
    log = Path(target) / "_delta_log"
    assert [path.name for path in log.glob("*.checkpoint.parquet")] == [f"{2:020}.checkpoint.parquet"]
    for commit in log.glob("*.json"):
        commit.unlink()
    assert ids(target) == list(range(30))
    assert DeltaTable(target).to_pyarrow_table().num_rows == 30


def test_what_is_altered_here_is_read_by_deltalake(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    write_deltalake(target, pa.table({"id": [1, 2], "city": ["São Paulo", "50%"]}), partition_by=["city"])
    tables.add_columns(target, {"zip": "string"}, comments={"zip": "postal code"})
    tables.set_properties(target, {"delta.appendOnly": "false", "owner": "me"})
    tables.add_constraint(target, "positive", "id > 0")
    tables.append(target, pa.table({"id": [3], "city": ["x/y"], "zip": ["123"]}))
    theirs = DeltaTable(target)
    assert theirs.metadata().configuration["delta.constraints.positive"] == "id > 0"
    read = sorted(theirs.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert read == sorted(rows_of(target), key=lambda row: row["id"])
    with pytest.raises(Exception, match="failed validation check"):
        write_deltalake(target, pa.table({"id": [-1], "city": ["c"], "zip": ["1"]}), mode="append")
