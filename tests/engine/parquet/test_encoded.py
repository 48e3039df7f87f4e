"""Text that repeats goes from file to file as a dictionary."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.engine import default_engine
from lakeport.kernel.engine import FileSplit, FileStatus

ROWS = 50_000
TABLE = pa.table({"n": range(ROWS), "few": ["a", "b"] * (ROWS // 2), "unique": [f"{n:08}" for n in range(ROWS)]})


def encoded_columns(path: Path, schema: pa.Schema = TABLE.schema) -> set[str]:
    split = FileSplit(FileStatus(str(path), path.stat().st_size))
    batches = list(default_engine().parquet.read_encoded(split, schema, 10_000))
    assert sum(batch.num_rows for batch in batches) == ROWS
    return {field.name for batch in batches for field in batch.schema if pa.types.is_dictionary(field.type)}


@pytest.mark.parametrize("rows", [10_000, ROWS])
def test_text_that_repeats_is_not_decoded(tmp_path: Path, rows: int) -> None:
    pq.write_table(TABLE, tmp_path / "f", row_group_size=rows)
    assert encoded_columns(tmp_path / "f") == {"few"}
    pq.write_table(TABLE, tmp_path / "g", use_dictionary=["few"], store_schema=False)
    assert encoded_columns(tmp_path / "g") == {"few"}
    pq.write_table(TABLE, tmp_path / "h", use_dictionary=False)
    assert encoded_columns(tmp_path / "h") == set()


def test_a_file_with_other_columns_is_read_as_usual(tmp_path: Path) -> None:
    pq.write_table(TABLE.append_column("a.b", pa.array(range(ROWS))), tmp_path / "f")
    assert encoded_columns(tmp_path / "f") == set()
    pq.write_table(TABLE, tmp_path / "f")
    assert encoded_columns(tmp_path / "f", pa.schema(reversed(list(TABLE.schema)))) == set()
    schema = TABLE.schema.set(0, pa.field("n", pa.decimal128(25, 0)))
    assert encoded_columns(tmp_path / "f", schema) == set()
    assert encoded_columns(tmp_path / "f", TABLE.schema.set(1, pa.field("FEW", pa.string()))) == set()


def test_columns_that_are_not_asked_for_are_left_out(tmp_path: Path) -> None:
    pq.write_table(TABLE.add_column(0, "dropped", pa.array(["x"] * ROWS)), tmp_path / "f")
    assert encoded_columns(tmp_path / "f") == {"few"}
    split, schema = FileSplit(FileStatus(str(tmp_path / "f"), 0)), pa.schema([TABLE.schema.field("few")])
    (batch,) = default_engine().parquet.read_encoded(split, schema)
    assert batch.schema.names == ["few"]
    assert batch.column(0).dictionary_decode().equals(TABLE["few"].combine_chunks())


def test_a_column_that_is_a_dictionary_remains_one(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "f")
    engine = default_engine()
    batches = engine.parquet.read_encoded(FileSplit(FileStatus(str(tmp_path / "f"), 0)), TABLE.schema, 10_000)
    writer = engine.parquet.open_writer(str(tmp_path / "g"), TABLE.schema)
    for batch in batches:
        writer.write(batch)
    writer.close()
    assert pq.read_table(tmp_path / "g").equals(TABLE)
    assert encoded_columns(tmp_path / "g") == {"few"}
