"""Files of many writers with new values in some columns: every reader finds them, and all other bytes are the same."""

from collections.abc import Callable, Collection
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.engine import default_engine
from lakeport.engine.column_editing.footer import PAGE_OFFSET, PAGES, InChunk, InColumn, InFile, InGroup, format_footer
from lakeport.engine.column_editing.original import Chunk, Original
from lakeport.engine.column_editing.thrift import BINARY, I64, Struct, read_struct
from lakeport.errors import CorruptTableError, InvalidDataError
from tests.engine.column_editing.edits import edit, read_by_all, same, status_of, with_new_values
from tests.engine.column_editing.writers import GROUP, ROWS, SCHEMA, WRITERS, rows

each_writer = pytest.mark.parametrize("writer", WRITERS)


@each_writer
@pytest.mark.parametrize("groups", [{0, 1, 2}, {1}, {0}], ids=["all row groups", "the second", "the first"])
def test_every_reader_finds_the_new_values(tmp_path: Path, writer: str, groups: Collection[int]) -> None:
    path = tmp_path / "file.parquet"
    WRITERS[writer](path)
    for names in (["n"], ["text", "price", "x"], ["s", "items"], ["kind", "day", "moment", "flag", "nothing", "raw"]):
        wanted = with_new_values(path, names, groups)
        edited = edit(path, names, wanted, groups)
        assert edited is not None
        for reader, found in read_by_all(edited):
            assert same(found, wanted), (reader, names)
        edited.unlink()


def chunk_bytes(original: Original) -> dict[tuple[int, str], list[bytes]]:
    """The bytes of the chunks of each row group and column."""
    return {
        (group, top.name): [original.read(original.chunk(group, leaf).range) for leaf in top.all_leaves]
        for group in range(len(original.groups))
        for top in original.tops
    }


@each_writer
def test_all_other_bytes_are_taken_over(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "file.parquet"
    WRITERS[writer](path)
    edited = edit(path, ["text"], with_new_values(path, ["text"], {1}), {1})
    assert edited is not None
    with pa.OSFile(str(path)) as before, pa.OSFile(str(edited)) as after:
        old, new = chunk_bytes(Original(before)), chunk_bytes(Original(after))
    changed = {key for key, chunks in old.items() if new[key] != chunks}
    assert changed <= {(1, "text")}
    assert bool(changed) == (len(old) > len(SCHEMA))  # some files have only one row group


@each_writer
def test_an_edited_file_can_be_edited_again(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "file.parquet"
    WRITERS[writer](path)
    once = edit(path, ["moment", "items"], rows(), {0, 1, 2})
    assert once is not None
    twice = edit(once.rename(tmp_path / "once.parquet"), ["price", "items"], rows(), {1})
    assert twice is not None
    for reader, found in read_by_all(twice):
        assert same(found, rows()), reader


@each_writer
def test_the_footer_is_true(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "file.parquet"
    WRITERS[writer](path)
    edited = edit(path, ["n", "kind"], rows(), {0, 1, 2})
    assert edited is not None
    old, new = pq.read_metadata(path), pq.read_metadata(edited)
    assert (new.num_rows, new.num_row_groups, new.created_by) == (ROWS, old.num_row_groups, old.created_by)
    assert b"ARROW:schema" not in (new.metadata or {})
    end = 4
    for group in range(new.num_row_groups):
        info = new.row_group(group)
        columns = [info.column(place) for place in range(info.num_columns)]
        assert info.num_rows == old.row_group(group).num_rows
        assert info.total_byte_size == sum(column.total_uncompressed_size for column in columns)
        for column in columns:
            start = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)))
            assert start >= end
            end = start + column.total_compressed_size
    for group in range(old.num_row_groups):
        for place in range(old.num_columns):
            before, after = old.row_group(group).column(place), new.row_group(group).column(place)
            assert (before.path_in_schema, before.physical_type) == (after.path_in_schema, after.physical_type)
            if before.statistics is not None:
                assert after.statistics.null_count == before.statistics.null_count


def test_page_indexes_and_bloom_filters_move_along(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    options = {"write_page_index": True, "write_batch_size": 50, "data_page_size": 512}
    pq.write_table(rows(), path, row_group_size=GROUP, bloom_filter_options={"id": True, "text": True}, **options)
    edited = edit(path, ["n"], with_new_values(path, ["n"], {1}), {1})
    assert edited is not None
    with pa.OSFile(str(path)) as before, pa.OSFile(str(edited)) as after:
        old, new = Original(before), Original(after)
        for group in range(3):
            for leaf in range(len(pq.read_metadata(path).schema)):
                _check_indexes(old, old.chunk(group, leaf), new, new.chunk(group, leaf))


def _check_indexes(old: Original, before: Chunk, new: Original, after: Chunk) -> None:
    assert (before.bloom_filter is None) == (after.bloom_filter is None)
    if before.bloom_filter and after.bloom_filter:
        assert old.read(before.bloom_filter) == new.read(after.bloom_filter)
    assert after.offset_index is not None
    pages = read_struct(new.read(after.offset_index))[0].items_of(PAGES)
    first, end = after.range
    offsets = [page.value(PAGE_OFFSET) for page in pages]
    assert all(first <= offset < end for offset in offsets)
    for offset in offsets:  # a page header is there
        assert read_struct(new.read((offset, end)))[0].value(3) > 0
    if read_range := before.column_index:
        assert after.column_index is not None
        same = old.read(read_range) == new.read(after.column_index)
        assert same or before.metadata.items_of(3) == [b"n"]


@pytest.mark.parametrize(
    "predicate", ["id = 1234", "id > 2900", "n = 17", "text = 'text 77 ü'", "kind = 'kind 3' AND id < 50", "n IS NULL"]
)
def test_filters_skip_no_row(tmp_path: Path, predicate: str) -> None:
    """DuckDB uses statistics and bloom filters."""
    path = tmp_path / "file.parquet"
    WRITERS["duckdb"](path)
    wanted = with_new_values(path, ["n", "text"], {0, 1})
    edited = edit(path, ["n", "text"], wanted, {0, 1})
    assert edited is not None
    found = duckdb.sql(f"SELECT id FROM read_parquet('{edited}') WHERE {predicate} ORDER BY id").fetchall()
    assert found == duckdb.sql(f"SELECT id FROM wanted WHERE {predicate} ORDER BY id").fetchall()
    assert found


def test_missing_columns_are_added(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(rows().drop(["price", "s"]), path, row_group_size=GROUP)
    wanted = with_new_values(path, ["price", "s", "n"], {1})
    edited = edit(path, ["price", "s", "n"], wanted, {1})
    assert edited is not None
    for reader, found in read_by_all(edited):
        assert same(found, wanted), reader


def test_ids_find_columns_and_stay(tmp_path: Path) -> None:
    def with_id(field: pa.Field, number: int) -> pa.Field:
        return field.with_metadata({b"PARQUET:field_id": str(number).encode()})

    path, target = tmp_path / "file.parquet", tmp_path / "new.parquet"
    given = pa.table({"old name": [1, 2], "other": ["a", "b"]})
    given = given.cast(pa.schema([with_id(field, number) for number, field in enumerate(given.schema, start=5)]))
    pq.write_table(given, path, store_schema=False)
    columns = pa.schema([with_id(pa.field("name", pa.int64()), 5), with_id(pa.field("new", pa.int64()), 7)])
    editor = default_engine().parquet.open_editor(status_of(path), str(target), columns, columns)
    assert set(editor.renewed) == {"new"}
    editor.replace(0, [pa.table({"name": [3, 4]}), pa.table([pa.array([5, 6])], schema=pa.schema([columns.field(1)]))])
    editor.close()
    found = pq.read_table(target)
    assert found.to_pydict() == {"old name": [3, 4], "other": ["a", "b"], "new": [5, 6]}
    assert [field.metadata[b"PARQUET:field_id"] for field in found.schema] == [b"5", b"6", b"7"]


def test_a_name_is_not_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(rows(), path)
    columns = pa.schema([pa.field("N", pa.int32(), metadata={b"PARQUET:field_id": b"2"})])
    assert default_engine().parquet.open_editor(status_of(path), str(tmp_path / "new"), columns, columns) is None


def test_metadata_of_others_stays(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    table = rows().replace_schema_metadata({"writer.model.name": "example", "pandas": "{}"})
    pq.write_table(table, path)
    edited = edit(path, ["n"], rows(), {0})
    assert edited is not None
    assert pq.read_metadata(edited).metadata == {b"writer.model.name": b"example"}


def test_rows_stay_sorted_by_columns_that_keep_their_values(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    order = [pq.SortingColumn(0), pq.SortingColumn(1)]
    pq.write_table(rows(), path, row_group_size=GROUP, sorting_columns=order)
    by_other, by_own = edit(path, ["text"], rows(), {0, 1, 2}), edit(path, ["n"], rows(), {1})
    assert by_other is not None
    assert by_own is not None
    groups = range(3)
    assert [pq.read_metadata(by_other).row_group(group).sorting_columns for group in groups] == [tuple(order)] * 3
    found = [len(pq.read_metadata(by_own).row_group(group).sorting_columns) for group in groups]
    assert found == [2, 0, 2]


def test_files_without_rows_and_empty_row_groups(tmp_path: Path) -> None:
    none, some = tmp_path / "none.parquet", tmp_path / "some.parquet"
    pq.write_table(SCHEMA.empty_table(), none)
    with pq.ParquetWriter(some, SCHEMA) as writer:
        for part in (SCHEMA.empty_table(), rows(), SCHEMA.empty_table()):
            writer.write_table(part)
    edited = edit(none, ["n"], SCHEMA.empty_table(), {0})
    assert edited is not None
    assert pq.read_table(edited).num_rows == 0
    edited = edit(some, ["n"], rows(), {0, 1, 2})
    assert edited is not None
    for reader, found in read_by_all(edited):
        assert same(found, rows()), reader


def _encrypted(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4] + b"PARE")


def _of_another_version(path: Path) -> None:
    _edit_footer(path, lambda footer: footer.put(20, I64, 1))


def _with_columns_elsewhere(path: Path) -> None:
    def move(footer: Struct) -> None:
        footer.items_of(InFile.ROW_GROUPS)[0].items_of(InGroup.COLUMNS)[1].put(InColumn.FILE_PATH, BINARY, b"other")

    _edit_footer(path, move)


def _with_columns_outside(path: Path) -> None:
    def move(footer: Struct) -> None:
        column = footer.items_of(InFile.ROW_GROUPS)[0].items_of(InGroup.COLUMNS)[1]
        column.value(InColumn.METADATA).put(InChunk.COMPRESSED, I64, 1 << 40)

    _edit_footer(path, move)


def _of_an_old_writer(path: Path) -> None:
    _edit_footer(path, lambda footer: footer.put(InFile.CREATED_BY, BINARY, b"parquet-mr version 1.6.0 (build 6a)"))


def _in_the_old_calendar(path: Path) -> None:
    pq.write_table(rows().replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}), path)


def _with_names_that_differ_in_case(path: Path) -> None:
    pq.write_table(rows().rename_columns([name if name != "text" else "N" for name in SCHEMA.names]), path)


def _edit_footer(path: Path, change: Callable[[Struct], object]) -> None:
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer, _ = read_struct(data, start)
    change(footer)
    path.write_bytes(data[:start] + format_footer(footer))


@pytest.mark.parametrize(
    "spoil",
    [
        _encrypted,
        _of_another_version,
        _with_columns_elsewhere,
        _with_columns_outside,
        _of_an_old_writer,
        _in_the_old_calendar,
        _with_names_that_differ_in_case,
    ],
)
def test_other_files_are_not_edited(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(rows(), path)
    spoil(path)
    try:
        assert edit(path, ["n"], rows(), {0}) is None
    except CorruptTableError:
        assert spoil is _encrypted
    assert [file.name for file in tmp_path.iterdir()] == ["file.parquet"]


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(rows(), path)
    columns = pa.schema([pa.field("n", pa.int32(), nullable=False)])
    editor = default_engine().parquet.open_editor(status_of(path), str(tmp_path / "new.parquet"), columns, columns)
    with pytest.raises(InvalidDataError, match="n"):
        editor.replace(0, [pa.table([pa.nulls(ROWS, pa.int32())], schema=columns)])
    editor.abort()
    assert [file.name for file in tmp_path.iterdir()] == ["file.parquet"]
