"""The default engine's JSON: pyarrow's way through a block of lines gives what msgspec's gives."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.engine import memory_engine
from lakeport.engine.json import files as engine_json
from lakeport.engine.json.cells import parse_cells
from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import REMOVE, STATE_FIELDS
from lakeport.kernel.engine import FILE_INDEX, FileStatus
from lakeport.kernel.log import FileColumns

SCHEMA = pa.schema([pa.field("add", FileColumns(row_tracking=True, stats=True).add_type), REMOVE, *STATE_FIELDS])
VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 3, "cardinality": 1}
LINES = 1000


def add(number: int, **changes: Any) -> dict[str, Any]:
    body = {"path": f"f{number}", "partitionValues": {"d": f"{number % 3}", "e": None}, "size": number}
    return {"add": body | {"modificationTime": 1, "dataChange": True, "stats": f'{{"numRecords":{number}}}'} | changes}


def read(text: bytes) -> list[dict[str, Any]] | type[Exception]:
    """The rows, maps as dicts without what is null in them; or the type of the error."""
    engine = memory_engine()
    engine.storage.write("memory:///log.json", text)
    try:
        batches = list(engine.json.read_json_files([FileStatus("memory:///log.json", len(text))], SCHEMA))
    except CorruptTableError as error:
        return type(error)
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(SCHEMA)
    return [_without_nulls(row) for batch in batches for row in batch.to_pylist()]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):
        value = dict(value)
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def both_ways(text: bytes, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    results = []
    for limit in (0, 1 << 40):
        monkeypatch.setattr(engine_json, "_SMALL_BLOCK", limit)
        results.append(read(text))
    return results


CHANGES: dict[str, Callable[[int], Any]] = {
    "a partition value is missing": lambda i: add(i, partitionValues={"e": "x"}),
    "a partition value is new": lambda i: add(i, partitionValues={"z": "x"}),
    "a partition value is a number": lambda i: add(i, partitionValues={"d": 1}),
    "no partition values": lambda i: add(i, partitionValues=None),
    "a null vector": lambda i: add(i, deletionVector=None),
    "a vector": lambda i: add(i, deletionVector=VECTOR),
    "tags": lambda i: add(i, tags={"a": "b", "c": None}),
    "a list": lambda i: add(i, tags=[1, 2]),
    "a whole float": lambda i: add(i, size=1.0),
    "a float": lambda i: add(i, size=1.5),
    "a number that is too big": lambda i: add(i, size=2**70),
    "an object for text": lambda i: add(i, stats={"numRecords": 1}),
    "an object for a number": lambda i: add(i, size={"a": 1}),
    "odd text": lambda i: add(i, path='é😀\u2028\\"\n\t\0'),
    "a remove": lambda i: {"remove": {"path": f"f{i}", "deletionVector": VECTOR, "size": 1}},
    "an empty object": lambda i: {},
    "a key twice": lambda i: '{"add": {"path": "a", "path": "b"}}',
    "escapes": lambda i: '{"a\\u0064d": {"path": "\\u00e9\\ud83d\\ude00"}}',
    "half a character": lambda i: '{"add": {"path": "\\ud800"}}',
    "two objects": lambda i: '{"add": {"path": "a"}} {"add": {"path": "b"}}',
    "half a line": lambda i: '{"add": {"path": "a"',
    "a line that is very long": lambda i: add(i, path="x" * 1_500_000),
    "a line that is very deep": lambda i: '{"x": ' + "[" * 5000 + "]" * 5000 + "}",
}


@pytest.mark.parametrize("where", ["first", "in the middle", "all"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_line_that_is_different_is_read_the_same_way(
    change: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"first": range(1), "in the middle": range(LINES // 2, LINES // 2 + 1), "all": range(LINES)}[where]
    count = 100 if "very" in change and where == "all" else LINES
    if where == "all" and "very long" in change:
        count = 3
    lines = [CHANGES[change](i) if i in changed else add(i) for i in range(count)]
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode()
    by_arrow, by_msgspec = both_ways(text, monkeypatch)
    assert by_arrow == by_msgspec


@pytest.mark.parametrize("change", CHANGES)
def test_files_read_together_have_the_lines_of_each(change: str) -> None:
    lines = [CHANGES[change](i) if i == 5 else add(i) for i in range(20)]
    texts = [(line if isinstance(line, str) else json.dumps(line)).encode() for line in lines]
    texts[3:3] = [b"", texts[0] + b"\n \n" + texts[1] + b"\r\n", texts[2] + b"\n"]
    one_by_one = [read(text) for text in texts]
    engine, files = memory_engine(), []
    for i, text in enumerate(texts):
        engine.storage.write(f"memory:///{i}.json", text)
        files.append(FileStatus(f"memory:///{i}.json", len(text)))
    batches = engine.json.read_json_files(files, pa.schema([*SCHEMA, FILE_INDEX]))
    if CorruptTableError in one_by_one:
        with pytest.raises(CorruptTableError) as caught:
            list(batches)
        assert caught.value.path == files[one_by_one.index(CorruptTableError)].path
        return
    found: list[list[Any]] = [[] for _ in files]
    for batch in batches:
        batch.validate(full=True)
        for row in batch.to_pylist():
            found[row.pop(FILE_INDEX.name)].append(_without_nulls(row))
    assert found == one_by_one


@pytest.mark.parametrize("between", ["\n", "\r\n", "\n\n", "\n  \n"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_line_ends_do_not_matter(between: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = between.join(json.dumps(add(i)) for i in range(LINES)) + end
    by_arrow, by_msgspec = both_ways(text.encode(), monkeypatch)
    assert by_arrow == by_msgspec
    assert len(by_arrow) == LINES


def test_a_statistic_that_a_float_cannot_hold_is_unknown() -> None:
    texts = pa.array(['{"x": 1e300}', '{"x": -1e300}', '{"x": 1.5}', '{"x": "Infinity"}', '{"x": "NaN"}'])
    values = parse_cells(texts, pa.schema([("x", pa.float32())])).column("x").to_pylist()
    assert values == [None, None, 1.5, float("inf"), None]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_a_statistic_of_a_name_with_escapes_is_unknown(name: str) -> None:
    row = {name: 1, "f0": 2, "f1": 3}
    parsed = parse_cells(pa.array([json.dumps(row)]), pa.schema([(name, pa.int64()), ("f0", pa.int64())]))
    assert parsed.to_pylist() == [{name: None, "f0": 2}]


def test_a_statistic_that_is_very_deep_is_unknown() -> None:
    texts = pa.array(['{"y": ' + "[" * 100_000 + "]" * 100_000 + ', "x": 1}', '{"x": 1}'])
    assert parse_cells(texts, pa.schema([("x", pa.int64())])).to_pylist() == [{"x": None}, {"x": 1}]
