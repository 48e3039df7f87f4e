"""What workers get and hand back, and the names of the files that they write."""

import re

import pyarrow as pa
import pytest

from lakeport.engine import memory_engine
from lakeport.errors import UnsupportedFeatureError
from lakeport.kernel.actions import Add
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.schema import ArrayType, PrimitiveType, StructField, StructType
from lakeport.kernel.transaction import create_table
from lakeport.kernel.write import WriteContext, check_storable, decode_adds, encode_adds
from lakeport.testing.builder import struct

ROOT = "memory://table"
NAME = r"part-00000-[0-9a-f-]{36}-c000\.snappy\.parquet"
TRACKED = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}


def context_of(schema: StructType, partition_by: tuple[str, ...] = (), **properties: str) -> WriteContext:
    return create_table(memory_engine(), ROOT, schema, partition_by, properties).write_context()


def test_a_context_travels_as_bytes() -> None:
    transaction = create_table(
        memory_engine(),
        ROOT,
        struct(id="long", at=struct(x="long"), day="string"),
        ["day"],
        TRACKED | {"delta.columnMapping.mode": "id", "delta.constraints.c": "id > 0", "delta.targetFileSize": "1mb"},
    )
    context = transaction.write_context(keep_row_ids=True)
    copy = WriteContext.from_bytes(context.to_bytes())
    assert copy == context
    assert copy.physical_schema.equals(context.physical_schema, check_metadata=True)
    assert (copy.target_file_size, copy.constraints, copy.tight_bounds) == (1 << 20, {"c": "id > 0"}, True)
    assert copy.now == transaction.started


def test_add_actions_travel_as_bytes() -> None:
    vector = DeletionVectorDescriptor(storage_type="u", path_or_inline_dv="x", offset=1, size_in_bytes=3, cardinality=1)
    plain = Add(path="a%20b", partition_values={"p": None, "q": "ü"}, size=1, modification_time=2, data_change=True)
    rich = Add(
        path="c",
        partition_values={},
        size=1,
        modification_time=2,
        data_change=False,
        stats='{"numRecords":1}',
        tags={"t": None},
        deletion_vector=vector,
        base_row_id=0,
        default_row_commit_version=0,
        clustering_provider="liquid",
    )
    assert decode_adds(encode_adds([plain, rich])) == [plain, rich]


def test_files_have_unique_names_in_the_directory_of_their_partition() -> None:
    context = context_of(struct(id="long", day="string", n="long"), ("day", "n"))
    names = {context.new_file({"day": "a/b ü", "n": None}) for _ in range(10)}
    assert len(names) == 10
    assert all(re.fullmatch(rf"day=a%2Fb ü/n=__HIVE_DEFAULT_PARTITION__/{NAME}", name) for name in names)
    assert re.fullmatch(NAME, context_of(struct(id="long")).new_file({}))


def test_files_of_mapped_tables_have_no_partition_directories() -> None:
    context = context_of(struct(id="long", day="string"), ("day",), **{"delta.columnMapping.mode": "name"})
    assert re.fullmatch(NAME, context.new_file({"col-1": "a"}))


def test_files_of_changes_have_a_directory_of_their_own() -> None:
    context = context_of(struct(id="long", day="string"), ("day",)).for_changes()
    assert re.fullmatch(
        r"_change_data/day=a/cdc-00000-[0-9a-f-]{36}-c000\.snappy\.parquet", context.new_file({"day": "a"})
    )
    assert context.physical_schema.names == ["id", "_change_type"]


def test_a_path_in_the_log_is_encoded_once() -> None:
    context = context_of(struct(id="long", day="string"), ("day",))
    add = context.add(FileStatus(f"{ROOT}/day=a%2Fb ü/f.parquet", 5, 7), {"day": "a/b ü"}, None)
    assert add.path == "day=a%252Fb%20ü/f.parquet"
    assert (add.size, add.modification_time, add.data_change, add.partition_values) == (5, 7, True, {"day": "a/b ü"})


def test_rows_bring_their_ids_only_in_tables_that_track_them() -> None:
    tracked = create_table(memory_engine(), ROOT, struct(id="long"), (), TRACKED)
    kept = tracked.write_context(keep_row_ids=True)
    assert [f.name for f in kept.logical_fields] == ["id", "_row_id", "_row_commit_version"]
    assert [name[:10] for name in kept.physical_schema.names] == ["id", "_row-id-co", "_row-commi"]
    assert tracked.write_context().physical_schema.names == ["id"]
    plain = create_table(memory_engine(), ROOT, struct(id="long"))
    assert plain.write_context(keep_row_ids=True).physical_schema.names == ["id"]


def test_required_columns_are_required_in_the_files() -> None:
    schema = struct(StructField("id", PrimitiveType("long"), nullable=False), n="long")
    assert [f.nullable for f in context_of(schema).physical_schema] == [False, True]


def test_void_columns_are_not_in_the_files() -> None:
    assert context_of(struct(id="long", nothing="void")).physical_schema == pa.schema([("id", pa.int64())])


@pytest.mark.parametrize(
    ("schema", "partition_by", "reason"),
    [
        (struct(nothing="void"), (), "every column is a partition column or void"),
        (struct(nothing="void", day="string"), ("day",), "every column is a partition column or void"),
        (struct(id="long", at=struct(nothing="void")), (), "the column 'at' contains a void type"),
        (struct(id="long", at=ArrayType(PrimitiveType("void"))), (), "the column 'at' contains a void type"),
    ],
)
def test_tables_into_which_nothing_can_be_written_are_refused(
    schema: StructType, partition_by: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=reason) as caught:
        check_storable(schema, partition_by, ROOT)
    assert caught.value.features == ("void",)
