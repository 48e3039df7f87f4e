"""The lines of an answer as a log: in any order, with more or less in them than there could be, cut off, or wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import lakeport
from lakeport import tables
from lakeport.client.http.pool import HttpPool
from lakeport.client.tables.local_log import LineReader, LogLine, changes_log, snapshot_log
from lakeport.errors import LakeportError, SharingError
from lakeport.frame import Frame
from lakeport.kernel.actions import Add, AddCdc, Metadata, Protocol, Remove
from lakeport.testing.http import Asked, Steps, reply, scripted
from tests.client.reading import frame_of, server_at
from tests.client.timing import pool
from tests.examples import examples
from tests.parts import write_parts
from tests.properties import MAPPED, VECTORS
from tests.rows import texts_of
from tests.server.running import Running, running, sharing

FEATURES = "readerfeatures=deletionvectors,columnmapping;includeendstreamaction=true"
MAPS = {"partitionValues", "configuration", "options", "tags"}
"""Objects whose keys are data."""
OPTIONAL = {
    "stats", "modificationTime", "dataChange", "tags", "timestamp", "version", "expirationTimestamp", "baseRowId",
    "deletionVectorFileId", "name", "description", "numFiles", "createdTime", "defaultRowCommitVersion",
}  # fmt: skip
"""What a server may leave out of a snapshot. (The size of a file is on its line or in its action.)"""

Line = dict[str, Any]


@dataclass(repr=False)
class Answer:
    """An answer of our server, which another one gives in its place."""

    lines: list[Line]
    headers: dict[str, str]
    expected: list[str]
    body: bytes = b""

    def __call__(self, asked: Asked) -> Steps:
        return reply(self.body, headers=self.headers)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("lines")
    days = [f"d{i % 2}" for i in range(10)]
    parts = [pa.table({"id": range(start, start + 10), "day": days}) for start in range(0, 50, 10)]
    write_parts(folder / "delta", parts, partition_by=["day"], properties=VECTORS | MAPPED)
    write_parts(folder / "parquet", parts, partition_by=["day"])
    tables.delete(str(folder / "delta"), "id % 5 = 2")
    with running(sharing({f"a.b.{name}": folder / name for name in ("delta", "parquet")})) as started:
        yield started


@pytest.fixture(scope="module", params=["delta", "parquet"])
def answer(server: Running, request: pytest.FixtureRequest) -> Answer:
    capabilities = f"responseformat={request.param};{FEATURES}"
    path = f"shares/a/schemas/b/tables/{request.param}/query"
    given = server.post(path, headers={"delta-sharing-capabilities": capabilities})
    lines = [json.loads(line) for line in given.text.splitlines()]
    assert "endStreamAction" in lines[-1]
    kept = {name: given.headers[name] for name in ("delta-sharing-capabilities", "delta-table-version")}
    rows = texts_of(frame_of(server_at(server.endpoint), f"a.b.{request.param}"))
    return Answer(lines, kept, rows)


@dataclass(frozen=True, repr=False)
class Other:
    """The server that gives the answer in the other's place."""

    url: str
    http: HttpPool

    def frame(self) -> Frame:
        return frame_of(server_at(self.url, self.http), "a.b.c")


@pytest.fixture(scope="module")
def other(answer: Answer) -> Iterator[Other]:
    with scripted(answer) as started, pool() as http:
        yield Other(started.url, http)


def encoded(lines: list[Line]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def altered(value: Any, chance: random.Random, rate: float) -> Any:
    """With fields that nobody knows, and without some that nobody needs."""
    if not isinstance(value, dict):
        return value
    kept = {
        name: inner if name in MAPS else altered(inner, chance, rate)
        for name, inner in value.items()
        if not (name in OPTIONAL and chance.random() < rate)
    }
    if chance.random() < rate:
        kept[f"new{chance.randrange(9)}"] = chance.choice([None, 1, "x", [1, {"a": None}], {"path": "x", "size": "y"}])
    items = list(kept.items())
    chance.shuffle(items)
    return dict(items)


SETTINGS = examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
RATES = st.sampled_from([0.0, 0.1, 0.5, 1.0])


@SETTINGS
@given(seed=st.integers(0, 2**32), rate=RATES)
def test_order_and_fields_that_do_not_matter_do_not(answer: Answer, other: Other, seed: int, rate: float) -> None:
    chance = random.Random(seed)
    head, files, end = answer.lines[:2], answer.lines[2:-1], answer.lines[-1:]
    files = [altered(line, chance, rate) for line in files] + [{"aKindToCome": {"id": "x"}}]
    chance.shuffle(files)
    answer.body = encoded([*(altered(line, chance, rate) for line in head), *files, *end])
    assert texts_of(other.frame()) == answer.expected


@SETTINGS
@given(data=st.data())
def test_a_body_that_is_cut_off_is_an_error(answer: Answer, other: Other, data: st.DataObject) -> None:
    whole = encoded(answer.lines)
    answer.body = whole[: data.draw(st.integers(0, len(whole) - 2))]
    with pytest.raises(SharingError):
        other.frame().to_arrow()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a line where a value could be another."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


WRONG: list[Any] = [None, [], {}, "x", -1, 1.5, True, "é\u0000", 2**70, [[]], {"a": {"b": 1}}]


@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_a_wrong_value_is_an_error_or_makes_no_row_disappear(answer: Answer, other: Other, seed: int) -> None:
    chance = random.Random(seed)
    lines = json.loads(json.dumps(answer.lines[:-1]))
    held, key = chance.choice([place for line in lines for place in places(line) if not says_which_rows(*place)])
    held[key] = chance.choice(WRONG)
    answer.body = encoded([*lines, answer.lines[-1]])
    try:
        assert other.frame().to_arrow().num_rows >= len(answer.expected)
    except LakeportError as error:
        assert len(str(error)) > 20  # noqa: PT017  # either is right


def says_which_rows(held: Any, key: Any) -> bool:
    """Whether another value there is another table, by which nobody could tell that it is wrong."""
    return key in (
        "file",
        "deltaSingleAction",
        "add",
        "partitionColumns",
        "type",
        "name",
        "fields",
    ) or "cardinality" in (held if isinstance(held, dict) else ())


def test_a_file_that_is_told_twice_is_an_error(answer: Answer, other: Other) -> None:
    answer.body = encoded([*answer.lines[:-1], answer.lines[2], answer.lines[-1]])
    with pytest.raises(SharingError, match="sent a file of the table twice"):
        other.frame().to_arrow()


@pytest.mark.parametrize("number", [0, 1])
def test_another_head_among_the_files_is_an_error(answer: Answer, other: Other, number: int) -> None:
    repeated = json.loads(json.dumps(answer.lines[number]))
    answer.body = encoded([*answer.lines[:-1], repeated, answer.lines[-1]])
    assert other.frame().to_arrow().num_rows
    [head] = repeated.values()
    head.get("deltaProtocol", head).update(minReaderVersion=2)
    head.get("deltaMetadata", head).update(id="another")
    answer.body = encoded([*answer.lines[:-1], repeated, answer.lines[-1]])
    with pytest.raises(SharingError, match="a second protocol or metadata, different from the first"):
        other.frame().to_arrow()


def test_signed_urls_are_not_in_the_log(answer: Answer) -> None:
    name = "delta" if "delta" in answer.headers["delta-sharing-capabilities"] else "parquet"
    reader = LineReader(name, "a.b.c")
    log = snapshot_log(3, [], reader.read(encoded(answer.lines).splitlines()))
    assert list(log) == ["00000000000000000003.checkpoint.00000000-0000-4000-8000-000000000000.json"]
    assert all(b"X-Amz-Signature" not in content for content, _ in log.values())
    assert all("X-Amz-Signature" in signed.url for signed in reader.urls.values())
    assert all(path.startswith("delta-sharing:///a.b.c/") for path in reader.urls)


# Changes.


def logged(version: int, name: str, timestamp: int | None = None) -> LogLine:
    action = Add(path=name, partition_values={}, size=1, modification_time=0, data_change=True)
    return LogLine(action, version, timestamp)


HEAD = [LogLine(Protocol(min_reader_version=1, min_writer_version=2)), LogLine(Metadata(id="t", schema_string="{}"))]


def test_each_version_of_a_range_is_a_commit() -> None:
    log = changes_log(3, 6, HEAD, [logged(5, "b", 500), logged(3, "a", 300)])
    assert [name.partition(".")[0][-1] for name in sorted(log)] == ["2", "3", "4", "5", "6"]
    times = [log[f"{version:020d}.json"][1] for version in range(3, 7)]
    assert times[0] == 300
    assert times[2] == 500
    assert times == sorted(set(times))
    assert b'"a"' in log[f"{3:020d}.json"][0]
    assert b'"protocol"' in log[f"{3:020d}.json"][0]


def test_a_range_from_the_first_version_needs_no_checkpoint() -> None:
    assert sorted(changes_log(0, 1, HEAD, [])) == [f"{0:020d}.json", f"{1:020d}.json"]


@pytest.mark.parametrize("version", [2, 7, None])
def test_a_change_of_another_version_is_an_error(version: int | None) -> None:
    with pytest.raises(SharingError, match=f"a change of version {version}, which was not requested"):
        changes_log(3, 6, HEAD, [LogLine(logged(0, "a").action, version)])


def test_a_file_that_is_told_twice_of_a_version_is_an_error() -> None:
    changes_log(3, 6, HEAD, [logged(3, "a"), logged(4, "a")])
    with pytest.raises(SharingError, match="sent a file of the table twice"):
        changes_log(3, 6, HEAD, [logged(3, "a"), logged(3, "a")])


def test_vectors_without_an_id_of_their_own_are_told_apart() -> None:
    reader = LineReader("delta", "t")
    for count in (1, 2):
        vector = {"storageType": "p", "pathOrInlineDv": f"https://s/{count}", "sizeInBytes": 34, "cardinality": count}
        action = {"add": {"path": "https://s/x", "size": 5, "deletionVector": vector}}
        list(reader.read([json.dumps({"file": {"id": "x", "deltaSingleAction": action}}).encode()]))
    assert {signed.url for signed in reader.urls.values()} == {"https://s/x", "https://s/1", "https://s/2"}


def test_every_kind_of_change_is_taken(tmp_path: Path) -> None:
    line = {"url": "https://s/x", "id": "i", "partitionValues": {"day": "d"}, "size": 5, "version": 1, "timestamp": 9}
    reader = LineReader("parquet", "t")
    found = list(reader.read(json.dumps({kind: line}).encode() for kind in ("add", "remove", "cdf")))
    assert [type(one.action) for one in found] == [Add, Remove, AddCdc]
    assert {(one.version, one.timestamp) for one in found} == {(1, 9)}
    assert all(one.action.partition_values == {"day": "d"} for one in found)  # type: ignore[union-attr]


def test_the_local_log_is_read_by_path_too(tmp_path: Path) -> None:
    """What is built is a real log: written to a disk, it can be opened like any other."""
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    head = [HEAD[0], LogLine(Metadata(id="t", schema_string=schema))]
    folder = tmp_path / "t" / "_delta_log"
    folder.mkdir(parents=True)
    for name, (content, _) in snapshot_log(4, head, []).items():
        (folder / name).write_bytes(content)
    assert lakeport.scan(str(tmp_path / "t")).version == 4
