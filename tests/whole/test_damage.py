"""Damage: whatever is wrong with a table gives a typed error or the right rows, never another exception or a hang."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from lakeport.engine import default_engine, engine_over
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.errors import (
    AccessDeniedError,
    CorruptTableError,
    LakeportError,
    MissingFileError,
    StorageError,
    TableNotFoundError,
    UnknownColumnError,
    VersionNotFoundError,
)
from lakeport.kernel.expressions import col
from lakeport.kernel.snapshot import Table
from lakeport.testing.builder import TableBuilder, mapped, protocol, read, remove, rows, struct
from tests.conftest import missing
from tests.examples import examples

ROOT = "memory:///t"
ROWS = [(i, f"name {i}", i % 2) for i in (0, 2, 3, 10, 11, 20, 21, 22, 30)]
FORMS = ["classic", "v2-json", "v2-parquet-sidecars"]
LOTS = examples(150, suppress_health_check=[HealthCheck.too_slow])

Files = dict[str, bytes]


@cache
def files_of(form: str) -> Files:
    """A table with commits, a checkpoint, a hint, a checksum, statistics, and deletion vectors in a file and inline."""
    storage = MemoryStorage()
    schema = struct(id="long", name="string", p="integer")
    mode = "none"
    if form.endswith("sidecars"):
        schema, mode = mapped(schema), "name"
    table = TableBuilder(
        engine_over(storage),
        ROOT,
        schema,
        ["p"],
        {"delta.columnMapping.mode": mode},
        protocol(features=["deletionVectors", "columnMapping", "v2Checkpoint"]),
    )
    names = [f.name for f in table.physical_schema()]
    partition = schema.fields[2].physical_name(mode)

    def add(*ids: int) -> dict[str, Any]:
        data = dict(zip(names, (ids, [f"name {i}" for i in ids]), strict=True))
        name = f"part-{ids[0]}.parquet"
        return table.add(data, {partition: str(ids[0] % 2)}, row_group_size=2, name=name)

    evens, odds, gone = add(0, 2, 4, 6), add(3, 5), add(100)
    table.create(evens, gone).commit(odds).commit(*table.delete(evens, [2, 3]), add(10), add(11))
    table.checkpoint(form=form)
    table.commit(*table.delete(odds, [1], "i"), remove(gone))
    table.commit(add(20, 22), add(21), add(30), {"txn": {"appId": "a", "version": 1}})
    checksum = {"protocol": table.protocol["protocol"], "metadata": table.metadata["metaData"], "numFiles": 8}
    table.write(table.log_file(f"{4:020d}.crc"), json.dumps(checksum))
    return _dump(storage)


def _dump(storage: MemoryStorage) -> Files:
    folders = [ROOT, f"{ROOT}/_delta_log", f"{ROOT}/_delta_log/_sidecars"]
    return {f.path: storage.read(f.path) for folder in folders for f in storage.list_from(folder, "")}


def open_table(files: Files) -> Table:
    storage = MemoryStorage()
    for path, data in files.items():
        storage.write(path, data)
    return Table.for_path(engine_over(storage), ROOT)


def everything(files: Files) -> list[tuple[Any, ...]]:
    """All that a reader may ask; the rows."""
    table = open_table(files)
    snapshot = table.latest_snapshot()
    _ = (snapshot.timestamp, snapshot.domain_metadata, snapshot.transaction_version("a"))
    list(snapshot.history())
    found = rows(snapshot)
    rows(snapshot, (col("id") > 5) & (col("p") == 0) | (col("name") == "name 3"))
    list(snapshot.scan_builder().with_stats().build().files())
    return found


def outcome(files: Files) -> list[tuple[Any, ...]] | None:
    """The rows, or None for a typed error; another exception is a failure."""
    try:
        return everything(files)
    except LakeportError:
        return None


@pytest.mark.parametrize("form", FORMS)
def test_the_undamaged_table_has_its_rows(form: str) -> None:
    assert everything(files_of(form)) == sorted(ROWS, key=repr)


# Bytes

Damage = Callable[[bytes], bytes]


@st.composite
def byte_damage(draw: st.DrawFn, data: bytes) -> bytes:
    """Flipped bits, cuts, holes, insertions, zeros."""
    if not data:
        return draw(st.binary(min_size=1, max_size=20))
    start = draw(st.integers(0, len(data) - 1))
    length = draw(st.integers(1, 40))
    match draw(st.sampled_from(["flip", "flip", "flips", "cut", "hole", "insert", "zero", "empty", "garbage"])):
        case "flip":
            return data[:start] + bytes([data[start] ^ 1 << draw(st.integers(0, 7))]) + data[start + 1 :]
        case "flips":
            noise = draw(st.binary(min_size=length, max_size=length))
            return data[:start] + noise[: len(data) - start] + data[start + length :]
        case "cut":
            return data[:start]
        case "hole":
            return data[:start] + data[start + length :]
        case "insert":
            return data[:start] + draw(st.binary(min_size=1, max_size=20)) + data[start:]
        case "zero":
            return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]
        case "empty":
            return b""
    return draw(st.binary(max_size=50))


def kind_of(path: str) -> str:
    name = path.rpartition("/")[2]
    for kind in ("checkpoint", "_sidecars", ".crc", "_last_checkpoint", ".bin", "part-", ".json"):
        if kind in (path if kind == "_sidecars" else name) and (kind != "checkpoint" or name[0].isdigit()):
            return kind
    raise AssertionError(path)


def paths_of(form: str, *kinds: str) -> list[str]:
    return [path for path in files_of(form) if kind_of(path) in kinds]


@pytest.mark.parametrize("form", FORMS)
@LOTS
@given(data=st.data())
def test_damaged_bytes_anywhere_are_never_another_exception(form: str, data: st.DataObject) -> None:
    files = dict(files_of(form))
    path = data.draw(st.sampled_from([p for p in files if kind_of(p) != "_last_checkpoint"]), "file")
    files[path] = data.draw(byte_damage(files[path]), "damage")
    outcome(files)


@pytest.mark.parametrize("form", FORMS)
@examples(100)
@given(data=st.data())
def test_a_damaged_deletion_vector_is_an_error_or_has_the_right_rows(form: str, data: st.DataObject) -> None:
    files = dict(files_of(form))
    (path,) = paths_of(form, ".bin")
    files[path] = data.draw(byte_damage(files[path]), "damage")
    assert outcome(files) in (None, sorted(ROWS, key=repr))


@pytest.mark.parametrize("form", FORMS)
@examples(100)
@given(data=st.data())
def test_a_damaged_hint_does_not_matter(form: str, data: st.DataObject) -> None:
    files = dict(files_of(form))
    (path,) = paths_of(form, "_last_checkpoint")
    version = st.integers(-3, 9) | st.integers() | st.floats() | st.text(max_size=3) | st.none()
    hints = st.fixed_dictionaries({"version": version}).map(lambda hint: json.dumps(hint).encode())
    files[path] = data.draw(hints | byte_damage(files[path]) | st.binary(max_size=30), "hint")
    assert everything(files) == sorted(ROWS, key=repr)


@pytest.mark.parametrize("form", FORMS)
@examples(60)
@given(data=st.data())
def test_a_checksum_that_is_cut_or_garbage_does_not_matter(form: str, data: st.DataObject) -> None:
    files = dict(files_of(form))
    (path,) = paths_of(form, ".crc")
    cut = st.integers(0, len(files[path]) - 1).map(lambda n: files_of(form)[path][:n])
    files[path] = data.draw(cut | st.binary(max_size=60) | json_values.map(lambda v: json.dumps(v).encode()))
    assert everything(files) == sorted(ROWS, key=repr)


@pytest.mark.parametrize("form", FORMS)
def test_any_file_may_be_missing(form: str) -> None:
    last = f"{4:020d}.json"  # without it, the table is at version 3
    for path in [p for p in files_of(form) if not p.endswith(last)]:
        files = {p: d for p, d in files_of(form).items() if p != path}
        found = outcome(files)
        assert found in (None, sorted(ROWS, key=repr)), path
        if kind_of(path) in (".crc", "_last_checkpoint"):
            assert found is not None


# JSON

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("form", FORMS)
@LOTS
@given(data=st.data())
def test_odd_values_in_the_log_are_never_another_exception(form: str, data: st.DataObject) -> None:
    files = dict(files_of(form))
    logs = [p for p in files if p.endswith(".json")]
    path = data.draw(st.sampled_from(logs), "file")
    lines = [json.loads(line) for line in files[path].splitlines()]
    index = data.draw(st.integers(0, len(lines) - 1), "line")
    where = data.draw(st.sampled_from(list(places(lines[index]))), "place")
    lines[index] = replaced(lines[index], where, data.draw(json_values, "value"))
    files[path] = "\n".join(map(json.dumps, lines)).encode()
    outcome(files)


@pytest.mark.parametrize("form", FORMS)
@examples(60)
@given(data=st.data())
def test_the_order_of_lines_and_their_repetition_mean_nothing(form: str, data: st.DataObject) -> None:
    files = dict(files_of(form))
    for path in [p for p in files if kind_of(p) == ".json"]:
        lines = data.draw(st.permutations(files[path].splitlines()), "lines")
        again = data.draw(st.lists(st.sampled_from(lines), max_size=2), "again")
        files[path] = b"\n".join([*lines, *again])
    assert everything(files) == sorted(ROWS, key=repr)


@pytest.mark.parametrize("form", FORMS)
@examples(60)
@given(data=st.data())
def test_missing_lines_are_never_another_exception(form: str, data: st.DataObject) -> None:
    files = dict(files_of(form))
    path = data.draw(st.sampled_from([p for p in files if p.endswith(".json")]), "file")
    lines = files[path].splitlines()
    files[path] = b"\n".join(data.draw(st.lists(st.sampled_from(lines), unique=True), "lines"))
    outcome(files)


# Statistics

not_numbers = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
stats_texts = st.text(max_size=40) | st.fixed_dictionaries(
    {},
    optional={
        "numRecords": not_numbers,
        "tightBounds": not_numbers,
        **{
            name: not_numbers | st.dictionaries(st.just("id"), not_numbers.filter(lambda v: not isinstance(v, float)))
            for name in ("minValues", "maxValues", "nullCount")
        },
    },
).map(json.dumps)


@examples(150)
@given(stats=stats_texts, where=st.sampled_from(["commit", "v2-json", "classic"]))
def test_damaged_statistics_give_the_right_rows(stats: str, where: str) -> None:
    engine = engine_over(MemoryStorage())
    table = TableBuilder(engine, ROOT, struct(id="long", name="string"))
    table.create(table.add({"id": [1, 2], "name": ["x", None]}, stats=stats or " "), table.add({"id": [5]}))
    if where != "commit":
        table.checkpoint(form=where)
    snapshot = table.snapshot()
    assert rows(snapshot) == sorted([(1, "x"), (2, None), (5, None)], key=repr)
    assert rows(snapshot, col("id") <= 1) == [(1, "x")]
    assert rows(snapshot, col("id").is_not_null() & col("name").is_null()) == [(2, None), (5, None)]
    list(snapshot.scan_builder().with_stats().build().files())


# The list of bad inputs


def damaged(path_part: str, data: bytes | None, form: str = "classic") -> Files:
    files = dict(files_of(form))
    path = next(p for p in files if path_part in p)
    if data is None:
        del files[path]
    else:
        files[path] = data
    return files


@pytest.mark.parametrize(
    ("path_part", "data", "error"),
    [
        (f"{3:020d}.json", b'{"add": ', CorruptTableError),
        (f"{3:020d}.json", b"\x00\x01", CorruptTableError),
        (f"{3:020d}.json", None, CorruptTableError),
        ("checkpoint.parquet", b"PAR1", CorruptTableError),
        ("checkpoint.parquet", b"", CorruptTableError),
        (".bin", b"", CorruptTableError),
        (".bin", b"\x02" + bytes(60), CorruptTableError),
        (".bin", None, MissingFileError),
        ("part-0", b"no parquet", CorruptTableError),
        ("part-0", None, MissingFileError),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_name(path_part: str, data: bytes | None, error: Any) -> None:
    with pytest.raises(error) as caught:
        everything(damaged(path_part, data))
    assert caught.value.path.startswith(ROOT)
    assert data is None or path_part in caught.value.path
    assert str(caught.value.path) in str(caught.value)


def test_an_old_version_an_unknown_version_and_an_unknown_column_are_told() -> None:
    table = open_table(files_of("classic"))
    with pytest.raises(VersionNotFoundError, match="0 to 4"):
        table.snapshot_at_version(5)
    with pytest.raises(UnknownColumnError, match="nme"):
        read(table.latest_snapshot(), col("nme") == 1)


@pytest.mark.parametrize("content", ["nothing", "files", "empty log", "a file"])
def test_what_is_not_a_table_is_not_found(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t"
    if content == "files":
        path.mkdir()
        (path / "x.parquet").write_bytes(b"x")
    elif content == "empty log":
        (path / "_delta_log").mkdir(parents=True)
    elif content == "a file":
        path.write_bytes(b"x")
    with pytest.raises(TableNotFoundError, match=str(path)):
        Table.for_path(default_engine(), str(path)).latest_snapshot()


@contextmanager
def nobody() -> Iterator[None]:
    """Not root, for whom no permission is lacking."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(65534)
    except PermissionError:
        missing("root may not become another user here")
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everyone may enter, unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("closed", ["_delta_log", f"_delta_log/{0:020d}.json", "data.parquet"])
def test_no_permission_is_told_by_type_and_path(open_folder: Path, closed: str) -> None:
    table = TableBuilder(default_engine(), str(open_folder), struct(id="long"))
    table.create(table.add({"id": [1]}, name="data.parquet"))
    (open_folder / closed).chmod(0)
    try:
        with nobody(), pytest.raises(AccessDeniedError) as caught:
            rows(table.snapshot())
    finally:
        (open_folder / closed).chmod(0o755)
    assert isinstance(caught.value, PermissionError)
    assert caught.value.path.startswith(str(open_folder / closed))


def s3_table(port: int) -> Table:
    options = {
        "aws_endpoint": f"http://127.0.0.1:{port}",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        "allow_http": True,
    }
    return Table.for_path(default_engine(options), "s3://bucket/table")


def test_a_network_that_fails_is_an_error_soon() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(StorageError, match="s3://bucket/table"):
        s3_table(port).latest_snapshot()
    assert time.monotonic() - start < 40


@pytest.mark.parametrize(("status", "error"), [(403, AccessDeniedError), (401, AccessDeniedError), (400, StorageError)])
def test_a_server_that_refuses_is_an_error_by_type(status: int, error: type[LakeportError]) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server wants
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(error, match="s3://bucket/table"):
                s3_table(server.server_address[1]).latest_snapshot()
        finally:
            server.shutdown()


def test_a_parquet_file_of_another_table_is_an_error() -> None:
    table = TableBuilder(engine_over(MemoryStorage()), ROOT, struct(id="long"))
    table.create(table.add(pa.table({"id": ["text"]}), name="odd.parquet"))
    with pytest.raises(CorruptTableError, match=r"odd\.parquet"):
        rows(table.snapshot())
