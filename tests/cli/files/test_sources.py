"""What tables are made of: files of every format, stdin, patterns and other tables."""

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import lakeport as package
from lakeport.cli.files import readers
from lakeport.cli.files.parsing import infer_from_texts
from lakeport.kernel.schema import PrimitiveType
from tests.cli.conftest import Run
from tests.rows import rows_of

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", None, "ü"]})
LONG, STRING = PrimitiveType("long"), PrimitiveType("string")


def types_of(table: object) -> dict[str, str]:
    schema = package.scan(str(table)).snapshot.schema
    return {field.name: getattr(field.type, "name", repr(field.type)) for field in schema}


def as_stream(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, ROWS.schema) as writer:
        writer.write_table(ROWS)


def as_arrow_file(path: Path) -> None:
    with pa.ipc.new_file(str(path), ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=2)


WRITERS: dict[str, Callable[[Path], None]] = {
    "rows.parquet": lambda path: pq.write_table(ROWS, path, row_group_size=2),
    "file.arrow": as_arrow_file,
    "stream.arrow": as_stream,
    "rows.csv": lambda path: path.write_text('id,name\n1,"a"\n2,\n3,ü\n') and None,
    "rows.jsonl": lambda path: path.write_text('{"id":1,"name":"a"}\n{"id":2}\n{"id":3,"name":"ü"}\n') and None,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_each_format_makes_the_same_table(lakeport: Run, tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    result = lakeport("create", tmp_path / "t", tmp_path / name)
    assert (result.code, result.err) == (0, "")
    assert types_of(tmp_path / "t") == {"id": "long", "name": "string"}
    assert rows_of(tmp_path / "t") == ROWS.to_pylist()


@pytest.mark.parametrize("name", WRITERS)
def test_each_format_can_come_from_stdin(
    lakeport: Run, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    WRITERS[name](tmp_path / name)
    raw = io.BytesIO((tmp_path / name).read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(raw)))  # type: ignore[type-var]
    kind = name.rpartition(".")[2]
    assert lakeport("create", tmp_path / "t", "-", "--format", kind).code == 0
    assert rows_of(tmp_path / "t") == ROWS.to_pylist()


def test_stdin_needs_a_format_and_stands_alone(lakeport: Run, tmp_path: Path) -> None:
    refused = lakeport("create", tmp_path / "t", "-")
    assert (refused.code, "--format" in refused.err) == (2, True)
    (tmp_path / "a.csv").write_text("id\n1\n")
    refused = lakeport("create", tmp_path / "t", "-", tmp_path / "a.csv", "--format", "csv")
    assert (refused.code, "alone" in refused.err) == (2, True)


def test_a_delta_table_is_a_source(lakeport: Run, orders: str, tmp_path: Path) -> None:
    result = lakeport("create", tmp_path / "t", orders, "--partition-by", "day", "--json")
    assert result.documents[0]["metrics"]["numOutputRows"] == 13
    assert rows_of(tmp_path / "t") == rows_of(orders)
    assert package.scan(str(tmp_path / "t")).snapshot.partition_columns == ("day",)
    assert lakeport("append", tmp_path / "t", tmp_path / "t").code == 0
    assert lakeport("count", tmp_path / "t").out == "26\n"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_everything_that_is_exported_comes_back(lakeport: Run, everything: str, tmp_path: Path, kind: str) -> None:
    point = "struct<when: timestamp, v: variant>"
    columns = "byte byte, long long, float float, double double, flag boolean, text string, raw binary, "
    columns += "price decimal(38,9), day date, at timestamp, local timestamp_ntz, "
    columns += f"point {point}, v variant, list array<{point}>, days map<date, variant>"
    lakeport("export", everything, tmp_path / f"out.{kind}")
    result = lakeport("create", tmp_path / "t", tmp_path / f"out.{kind}", "--schema", columns)
    assert (result.code, result.err) == (0, "")
    assert lakeport("head", tmp_path / "t", "--json").out == lakeport("head", everything, "--json").out


def test_a_pattern_stands_for_its_files_in_order(lakeport: Run, tmp_path: Path) -> None:
    for day in (2, 1):
        (tmp_path / f"day{day}.csv").write_text(f"day\n{day}\n")
    result = lakeport("create", tmp_path / "t", f"{tmp_path}/day*.csv", "--json")
    assert result.documents[0]["metrics"]["numOutputRows"] == 2
    assert [row["day"] for row in package.scan(str(tmp_path / "t")).to_arrow().to_pylist()] == [1, 2]
    missing = lakeport("append", tmp_path / "t", f"{tmp_path}/night*.csv")
    assert (missing.code, "no file matches" in missing.err) == (1, True)


def test_files_with_other_columns_and_types_are_put_together(lakeport: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2\n")
    (tmp_path / "b.jsonl").write_text('{"id":2,"x":0.5,"y":"b"}\n')
    assert lakeport("create", tmp_path / "t", tmp_path / "a.csv", tmp_path / "b.jsonl").code == 0
    assert types_of(tmp_path / "t") == {"id": "long", "x": "double", "y": "string"}
    assert rows_of(tmp_path / "t") == [{"id": 1, "x": 2.0, "y": None}, {"id": 2, "x": 0.5, "y": "b"}]
    (tmp_path / "c.csv").write_text("id,x\n1,word\n")
    refused = lakeport("create", tmp_path / "u", tmp_path / "a.csv", tmp_path / "c.csv")
    assert (refused.code, "do not agree" in refused.err) == (1, True)


def test_text_is_read_as_the_types_of_the_table(lakeport: Run, tmp_path: Path) -> None:
    lakeport("create", tmp_path / "t", "--schema", "id string, price decimal(5,2), at timestamp, day date, n byte")
    (tmp_path / "a.csv").write_text('ID,at,day,price,n\n007,2026-01-31 12:00:00,"2026-01-31",1.5, 7\n,,"","",\n')
    line = {"id": "1", "price": 1.25, "at": "2026-01-31T12:00:00+02:00", "day": None}
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    assert lakeport("append", tmp_path / "t", tmp_path / "a.csv").err == ""
    assert lakeport("append", tmp_path / "t", tmp_path / "a.jsonl").err == ""
    nothing = dict.fromkeys(["id", "price", "at", "day", "n"])
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    first = {"id": "007", "price": Decimal("1.50"), "at": noon, "day": date(2026, 1, 31), "n": 7}
    second = nothing | {"id": "1", "price": Decimal("1.25"), "at": noon.replace(hour=10)}
    assert rows_of(tmp_path / "t") == [first, second, nothing]


def test_keys_that_come_late_are_columns_of_the_table(
    lakeport: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 64)
    lakeport("create", tmp_path / "t", "--schema", "id long, late string")
    lines = [json.dumps({"id": i}) for i in range(50)] + [json.dumps({"id": 50, "late": "x"})]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert lakeport("append", tmp_path / "t", tmp_path / "a.jsonl").err == ""
    assert lakeport("count", tmp_path / "t", "--where", "late = 'x'").out == "1\n"


@pytest.mark.parametrize(
    ("name", "content", "place", "reason"),
    [
        ("a.csv", "id\n1\n2\nthree\n", "row 3 of ", "'three' in column 'id' is not a valid long"),
        ("a.csv", "id,day\n1,2026-01-31\n2\n", "row 2 of ", "expected 2 values, found 1"),
        ("a.csv", "id,day\n1,2026-02-31\n", "row 1 of ", "is not a valid date"),
        ("a.csv", "", "", "no header"),
        ("a.csv", b"id,day\n\xff,\n", "", "UTF8"),
        ("a.jsonl", '{"id":1}\n\n{"id":"2"}\n', "line 3 of ", "'2' in column 'id' is not a valid long"),
        ("a.jsonl", '{"id":1}\n{"id":\n', "line 2 of ", "is not valid JSON"),
        ("a.jsonl", "[1]\n", "line 1 of ", "expected a JSON object"),
        ("a.jsonl", '{"id":1,"nope":2}\n', "", "no column 'nope'"),
        ("a.parquet", b"PAR1 no more PAR1", "", "cannot be read as parquet"),
        ("a.arrow", b"ARROW1", "", "cannot be read as arrow"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place_and_nothing_is_written(
    lakeport: Run, tmp_path: Path, name: str, content: str | bytes, place: str, reason: str
) -> None:
    lakeport("create", tmp_path / "t", "--schema", "id long, day date")
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = lakeport("append", tmp_path / "t", tmp_path / name)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert f"{place}{tmp_path / name}" in result.err or not place
    assert reason in result.err
    assert package.scan(str(tmp_path / "t")).version == 0
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["_delta_log"]


@pytest.mark.parametrize(
    ("name", "begin", "line", "last", "place"),
    [
        ("a.csv", "id\n", "1\n", "x\n", "row 101 of "),
        ("a.csv", "id\n", "1\n", "1,2\n", "row 101 of "),
        ("a.jsonl", "", '{"id": 1}\n', '{"id": "x"}\n', "line 101 of "),
        ("a.jsonl", "", '{"id": 1}\n', '{"ID": 1}\n', "line 101 of "),
    ],
)
def test_rows_are_counted_over_the_parts_in_which_a_file_is_read(
    lakeport: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    begin: str,
    line: str,
    last: str,
    place: str,
) -> None:
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 64)
    (tmp_path / name).write_text(begin + 100 * line + last)
    result = lakeport("create", tmp_path / "t", tmp_path / name)
    assert f"{place}{tmp_path / name}" in result.err
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_a_guess_that_fails_later_says_how_to_tell_the_type(
    lakeport: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 64)
    (tmp_path / "a.csv").write_text("id\n" + 100 * "1\n" + "x\n")
    assert "--schema" in lakeport("create", tmp_path / "t", tmp_path / "a.csv").err
    assert lakeport("create", tmp_path / "t", tmp_path / "a.csv", "--schema", "id string").code == 0


def test_a_directory_that_is_no_table_is_refused(lakeport: Run, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    result = lakeport("create", tmp_path / "t", tmp_path / "d")
    assert (result.code, "*.parquet" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (["1", "", None, "-2"], "long"),
        (["1", "2.5"], "double"),
        (["01", "12"], "string"),
        (["99999999999999999999"], "string"),
        (["true", "FALSE"], "boolean"),
        (["2026-01-31"], "date"),
        (["2026-01-31T12:00:00", "2026-01-31 12:00:00Z"], "timestamp"),
        (["2026-01-31", "x"], "string"),
        (["", None], "string"),
    ],
)
def test_types_of_csv_are_guessed_without_loss(texts: list[str | None], name: str) -> None:
    assert infer_from_texts(pa.array(texts, pa.string())) == PrimitiveType(name)


def test_types_of_json_are_guessed_at_every_depth(lakeport: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"a":{"b":[1,2.5],"c":null},"d":"2026-01-31"}\n{"a":{"e":[{"f":true}]},"d":null}\n'
    )
    assert lakeport("create", tmp_path / "t", tmp_path / "a.jsonl").err == ""
    out = lakeport("schema", tmp_path / "t").out
    assert "struct<b: array<double>, c: string, e: array<struct<f: boolean>>>" in out
    assert types_of(tmp_path / "t")["d"] == "date"
    (tmp_path / "b.jsonl").write_text('{"a":1}\n{"a":"x"}\n')
    refused = lakeport("create", tmp_path / "u", tmp_path / "b.jsonl")
    assert (refused.code, "numbers and strings" in refused.err) == (2, True)
    (tmp_path / "c.jsonl").write_text('{"a":{}}\n{"a":{}}\n')
    refused = lakeport("create", tmp_path / "u", tmp_path / "c.jsonl")
    assert (refused.code, "column 'a' have no fields, so its type is unknown: pass --schema" in refused.err) == (
        2,
        True,
    )


def test_a_bad_schema_is_told_with_what_is_wrong(lakeport: Run, tmp_path: Path) -> None:
    result = lakeport("create", tmp_path / "t", "--schema", "id long, day dat")
    assert (result.code, result.out) == (2, "")
    assert "'dat' is not a type" in result.err
    assert not (tmp_path / "t").exists()
