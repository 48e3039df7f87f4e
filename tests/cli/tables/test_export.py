"""`lakeport export`: every format, exactly, whole or not at all."""

import csv
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import lakeport as package
from lakeport.cli.files import formats
from lakeport.cli.tables.export import replacing
from lakeport.engine import default_engine
from lakeport.testing.builder import TableBuilder, struct
from tests.cli.conftest import Run

VARIANT_TEXT = '{"a":[1,null,2.5],"b":"é"}'


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.ipc.open_file(path) as file:
        return file.read_all()


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_columnar_file_has_the_rows_and_types_of_the_table(
    lakeport: Run, orders: str, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"out.{suffix}"
    assert lakeport("export", orders, out).code == 0
    expected = package.scan(orders).to_arrow()
    assert read(out).schema == expected.schema
    assert read(out).equals(expected)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_variants_become_json_text_and_no_mark_of_ours_remains(
    lakeport: Run, everything: str, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"out.{suffix}"
    assert lakeport("export", everything, out).code == 0
    table = read(out)
    first, second = table.to_pylist()
    assert first["v"] == first["point"]["v"] == first["list"][0]["v"] == first["days"][0][1] == VARIANT_TEXT
    assert first["list"][1] is None
    assert first["price"] == Decimal("12345678901234567890123456789.000000001")
    assert set(second.values()) == {None}
    assert b"lakeport" not in out.read_bytes()


def test_csv_is_exact_and_tells_null_from_empty(lakeport: Run, everything: str, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert lakeport("export", everything, out).code == 0
    with out.open(newline="") as file:
        first, second = csv.DictReader(file)
    assert first["price"] == "12345678901234567890123456789.000000001"
    assert first["at"] == "2026-01-31T12:00:00.000001Z"
    assert (first["local"], first["day"]) == ("2026-01-31T12:00:00", "2026-01-31")
    assert (first["raw"], first["float"], first["long"]) == ("AP8=", "0.1", str(2**63 - 1))
    assert first["text"] == 'a "b"\n,[red]\x1b[31m'
    assert json.loads(first["v"]) == json.loads(VARIANT_TEXT)
    assert json.loads(first["list"]) == [{"when": "2026-01-31T12:00:00Z", "v": json.loads(VARIANT_TEXT)}, None]
    assert set(second.values()) == {""}


def test_an_empty_string_is_quoted_in_csv_and_null_is_not(lakeport: Run, tmp_path: Path) -> None:
    table = TableBuilder(default_engine(), str(tmp_path / "t"), struct(a="string", b="void"))
    table.create(table.add({"a": ["", None]}))
    assert lakeport("export", table.root, tmp_path / "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == '"a","b"\n"",\n,\n'


def test_json_lines_are_those_of_head(lakeport: Run, everything: str, tmp_path: Path) -> None:
    assert lakeport("export", everything, tmp_path / "out.jsonl").code == 0
    assert (tmp_path / "out.jsonl").read_text() == lakeport("head", everything, "--json").out


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_a_table_without_rows_makes_a_file_without_rows(lakeport: Run, orders: str, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    result = lakeport("export", orders, out, "--format", kind, "--where", "id > 1000", "--json")
    assert result.documents == [{"path": str(out), "format": kind, "rows": 0, "version": 2}]
    assert (out.read_text() if kind in ("csv", "jsonl") else "") in ("", '"id","amount","day"\n')


def test_columns_filter_limit_and_version_apply(lakeport: Run, orders: str, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    lakeport("export", orders, out, "--columns", "id", "--where", "id > 0", "--limit", 3, "--version", 0)
    assert out.read_text() == '"id"\n1\n2\n3\n'


def test_an_existing_file_is_kept_unless_told_otherwise(lakeport: Run, orders: str, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("precious")
    refused = lakeport("export", orders, out)
    assert (refused.code, out.read_text()) == (1, "precious")
    assert "--force" in refused.err
    assert lakeport("export", orders, out, "--force").code == 0
    assert out.read_text().startswith('"id"')


def test_a_folder_is_never_replaced(lakeport: Run, orders: str, tmp_path: Path) -> None:
    (tmp_path / "out.csv").mkdir()
    assert lakeport("export", orders, tmp_path / "out.csv", "--force").code == 1
    assert (tmp_path / "out.csv").is_dir()


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_a_failure_half_way_leaves_what_was_there_and_nothing_else(
    lakeport: Run, orders: str, tmp_path: Path, kind: str
) -> None:
    next(Path(orders).glob("*.parquet")).unlink()
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "data"
    out.write_text("precious")
    assert lakeport("export", orders, out, "--format", kind, "--force").code == 1
    assert [path.name for path in out.parent.iterdir()] == ["data"]
    assert out.read_text() == "precious"


def test_a_file_that_appears_meanwhile_is_not_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(FileExistsError), replacing(str(out), force=False):
        out.write_bytes(b"theirs")
    assert out.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [out]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), replacing(str(tmp_path / "out"), force=False):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_many_small_batches_become_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_ROW_GROUP_ROWS", 100)
    schema = pa.schema([("id", pa.int64())])
    with (tmp_path / "out").open("wb") as file:
        writer = formats.open_writer(formats.Format.parquet, file, schema)
        for start in range(0, 250, 10):
            writer.write(pa.RecordBatch.from_pydict({"id": range(start, start + 10)}, schema=schema))
        writer.close()
    metadata = pq.read_metadata(tmp_path / "out")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [100, 100, 50]


def test_a_bar_grows_on_a_terminal(lakeport: Run, orders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = lakeport("export", orders, tmp_path / "out.csv")
    assert result.code == 0
    assert result.out == ""
    assert "13 rows" in result.err


def test_no_bar_is_drawn_where_nobody_looks(lakeport: Run, orders: str, tmp_path: Path) -> None:
    result = lakeport("export", orders, tmp_path / "out.csv")
    assert (result.out, result.err) == ("", "")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.parquet", "parquet"),
        ("a.PQ", "parquet"),
        ("a.json", "jsonl"),
        ("a.b.ndjson", "jsonl"),
        ("a.feather", "arrow"),
    ],
)
def test_the_name_tells_the_format(name: str, kind: Any) -> None:
    assert formats.format_of(name) == kind
