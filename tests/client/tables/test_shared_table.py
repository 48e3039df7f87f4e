"""Shared tables through our server: the rows are those of the same table by its path, in both formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport import tables
from lakeport.client.opening import FallbackTable
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_urls import SharedTable
from lakeport.engine import default_engine
from lakeport.errors import CorruptTableError, LakeportError, SharingError, UnsupportedFeatureError
from lakeport.frame import Frame
from lakeport.sharing.names import parse_table_name
from lakeport.source import PathTable
from lakeport.testing.builder import TableBuilder, struct
from lakeport.testing.http import Asked, Steps
from tests.acceptance.comparing import assert_expected, assert_same_rows
from tests.acceptance.real_tables import BY_NAME, Entry, change_cases, chosen, is_shareable, path_of, shared_name
from tests.client.provider import NAME, DataFile, Shared, providing, schema
from tests.client.reading import frame_of, server_at
from tests.parts import write_parts
from tests.properties import FEED, MAPPED, VECTORS
from tests.rows import ids, texts_of
from tests.server.running import Running, running, sharing

MANY = 40
"""Of tables with more versions only some are read."""
EVERYTHING = FEED | VECTORS | MAPPED


@pytest.fixture(scope="module", params=["delta", "parquet"])
def client(real_tables_server: Running, request: pytest.FixtureRequest) -> Iterator[SharingServer]:
    with server_at(real_tables_server.endpoint, formats=(request.param,)) as opened:
        yield opened


@contextmanager
def but_in_parquet(client: SharingServer) -> Iterator[None]:
    """Lets pass that a table cannot be told in the parquet format. In the delta format all can."""
    try:
        yield
    except SharingError as error:
        if error.code != "UNSUPPORTED_OPERATION" or client.formats != ("parquet",):
            raise


@chosen(is_shareable)
def test_a_shared_table_has_the_rows_that_are_expected(client: SharingServer, name: str) -> None:
    frame = frame_of(client, shared_name(name))
    with but_in_parquet(client):
        found = frame.to_arrow()
        assert frame.version == BY_NAME[name]["state"]["version"]
        assert_expected(name, found, BY_NAME[name]["expected"])
        assert frame.count() == found.num_rows
        assert frame.schema.equals(found.schema)


@chosen(is_shareable)
def test_every_version_is_the_one_of_the_path(client: SharingServer, name: str) -> None:
    shared, table = frame_of(client, shared_name(name)), lakeport.scan(path_of(name))
    latest = BY_NAME[name]["state"]["version"]
    for version in range(latest) if latest < MANY else sorted({0, 1, 2, latest // 2, latest - 1}):
        try:
            expected = table.at(version=version).to_arrow()
        except LakeportError:  # its log, or its files, are not there any more
            with pytest.raises(LakeportError):
                shared.at(version=version).to_arrow()
            continue
        with but_in_parquet(client):
            at = shared.at(version=version)
            assert_same_rows(at.to_arrow(), expected)
            assert at.version == version


@pytest.mark.parametrize(("name", "case"), change_cases("parquet"))
def test_a_change_feed_has_the_rows_that_are_expected(client: SharingServer, name: str, case: Entry) -> None:
    with but_in_parquet(client):
        found = frame_of(client, shared_name(name)).changes(case["start"], case["end"]).to_arrow()
        assert_same_rows(found.drop(["_commit_timestamp"]), pq.read_table(case["parquet"]))
        mine = lakeport.scan(path_of(name)).changes(case["start"], case["end"]).to_arrow()
        times = ["_commit_version", "_commit_timestamp"]
        assert set(texts_of(found.select(times))) == set(texts_of(mine.select(times)))


# Tables of our own.


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine versions, with deleted, updated and merged rows."""
    path = tmp_path_factory.mktemp("own") / "orders"
    parts = (
        pa.table({"id": range(number * 20, number * 20 + 20), "day": [f"2026-01-0{1 + number % 3}"] * 20})
        for number in range(5)
    )
    write_parts(path, parts, partition_by=["day"], properties=EVERYTHING)
    tables.delete(str(path), "id % 7 = 3")
    tables.update(str(path), {"day": "'2026-02-01'"}, "id < 4")
    tables.delete(str(path), "id > 90")
    tables.optimize(str(path))
    return path


@pytest.fixture(scope="module")
def own(orders: Path) -> Iterator[SharingServer]:
    with (
        running(sharing({"sales.eu.orders": orders}, history_shared=True)) as started,
        server_at(started.endpoint) as opened,
    ):
        yield opened


def test_columns_filters_and_limits_are_those_of_the_path(own: SharingServer, orders: Path) -> None:
    shared, local = frame_of(own, "sales.eu.orders"), lakeport.scan(str(orders))
    for condition in ("id = 5", "id > 50 AND day = '2026-01-02'", "day IS NULL", "id % 2 = 0 OR day < '2026-01-02'"):
        assert texts_of(shared.where(condition)) == texts_of(local.where(condition))
        assert shared.where(condition).count() == local.where(condition).count()
    assert texts_of(shared.select("day")) == texts_of(local.select("day"))
    assert shared.limit(7).to_arrow().num_rows == 7
    assert shared.where("id > 50").limit(3).to_arrow().num_rows == 3
    assert shared.limit(1_000).count() == local.count()


def test_each_version_and_each_range_of_changes_is_that_of_the_path(own: SharingServer, orders: Path) -> None:
    shared, local = frame_of(own, "sales.eu.orders"), lakeport.scan(str(orders))
    for version in range(local.version + 1):
        assert texts_of(shared.at(version=version)) == texts_of(local.at(version=version))
        for end in range(version, local.version + 1):
            mine, theirs = local.changes(version, end), shared.changes(version, end)
            assert texts_of(theirs) == texts_of(mine)


@pytest.mark.parametrize(
    ("ask", "history"),
    [
        (lambda view: view.version, True),
        (lambda view: view.schema, True),
        (lambda view: view.count(), True),
        (lambda view: view.count(), False),
    ],
)
def test_a_frame_stays_at_the_version_of_the_first_question(
    tmp_path: Path, ask: Callable[[Frame], Any], history: bool
) -> None:
    path = tmp_path / "growing"
    tables.create(str(path), {"id": [1, 2]})
    content = sharing({"a.b.growing": path}, history_shared=history)
    with running(content) as started, server_at(started.endpoint) as client:
        frame = frame_of(client, "a.b.growing")
        ask(frame)
        tables.append(str(path), {"id": [3]})
        for view in (frame, frame.where("id > 0"), frame.limit(10)):
            assert (view.version, view.count(), ids(view), view.snapshot.version) == (0, 2, [1, 2], 0)
        assert frame_of(client, "a.b.growing").count() == 3


def test_a_frame_whose_version_is_not_shared_any_more_says_so(tmp_path: Path) -> None:
    path = tmp_path / "growing"
    tables.create(str(path), {"id": [1, 2]})
    with running(sharing({"a.b.growing": path})) as started, server_at(started.endpoint) as client:
        frame = frame_of(client, "a.b.growing")
        assert frame.version == 0
        tables.append(str(path), {"id": [3]})
        with pytest.raises(SharingError, match="scan the table again") as caught:
            frame.to_arrow()
    assert caught.value.code == "VERSION_CHANGED"


def test_a_frame_without_refresh_tokens_does_not_move_to_another_version() -> None:
    table = Shared(schema(id="long"), [DataFile("1", pa.table({"id": [1, 2]}))])
    with providing(table) as provider:
        frame = provider.frame()
        assert frame.count() == 2
        table.version += 1
        with pytest.raises(SharingError, match="scan the table again") as caught:
            frame.where("id > 0").to_arrow()
    assert caught.value.code == "VERSION_CHANGED"


@dataclass(repr=False)
class Held(Shared):
    """Its first answer waits until it is let go."""

    asked_for: Event = field(default_factory=Event)
    let_go: Event = field(default_factory=Event)

    def __call__(self, asked: Asked) -> Steps:
        answer = super().__call__(asked)
        if not self.asked_for.is_set():
            self.asked_for.set()
            assert self.let_go.wait(60)
        return answer

    def commit(self, *files: DataFile) -> None:
        self.files, self.version = [*self.files, *files], self.version + 1


QUESTIONS: dict[str, Callable[[Frame], tuple[int, int]]] = {
    "the version first": lambda view: (view.version, view.count()),
    "the rows first": lambda view: (view.count(), view.version)[::-1],
    "filtered rows first": lambda view: (view.where("id > 0").count(), view.version)[::-1],
}


@pytest.mark.parametrize("first", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("second", QUESTIONS.values(), ids=QUESTIONS)
def test_threads_that_first_use_a_frame_while_there_is_a_commit_read_one_version(
    first: Callable[[Frame], tuple[int, int]], second: Callable[[Frame], tuple[int, int]]
) -> None:
    one, more = DataFile("1", pa.table({"id": [1, 2]})), DataFile("2", pa.table({"id": [3]}))
    table = Held(schema(id="long"), [one])
    with providing(table) as provider, ThreadPoolExecutor(1) as thread:
        frame = provider.frame()
        overtaken = thread.submit(first, frame)
        assert table.asked_for.wait(60)
        table.commit(more)
        assert second(frame) == (2, 3)
        table.let_go.set()
        assert overtaken.result(60) == (2, 3)
        assert frame.schema.names == ["id"]


def test_threads_that_learn_at_once_that_only_the_directory_is_offered_read_it(tmp_path: Path) -> None:
    tables.create(str(tmp_path), {"id": [1, 2]})
    table = Held(schema(id="long"), access_modes=["dir"])
    with providing(table) as provider, ThreadPoolExecutor(1) as thread:
        server = server_at(provider.server.url)
        by_directory = PathTable(default_engine(), str(tmp_path))
        by_urls = SharedTable(server, parse_table_name(NAME))
        frame = Frame.of(FallbackTable(server, parse_table_name(NAME), by_urls, by_directory))
        overtaken = thread.submit(frame.count)
        assert table.asked_for.wait(60)
        assert frame.count() == 2
        table.let_go.set()
        assert overtaken.result(60) == 2


def test_hints_for_the_columns_of_another_version_are_not_sent() -> None:
    table = Held(schema(id="string"))
    with providing(table) as provider, ThreadPoolExecutor(1) as thread:
        found = thread.submit(provider.frame().where("id < '10'").to_arrow)
        assert table.asked_for.wait(60)
        table.schema = schema(id="long")
        table.commit(DataFile("1", pa.table({"id": [9]})))
        table.let_go.set()
        assert found.result(60).to_pylist() == [{"id": 9}]
        assert "jsonPredicateHints" not in provider.body("query")


def test_an_answer_of_another_version_than_was_asked_for_is_refused() -> None:
    table = Shared(schema(id="long"), [DataFile("1", pa.table({"id": [1]}))], version=5)
    with providing(table) as provider:
        for read in (lambda view: view.schema, lambda view: view.count(), lambda view: view.where("id > 0").count()):
            with pytest.raises(SharingError, match=r"this reads version 3 of .* serves version 5"):
                read(provider.frame().at(version=3))


def test_a_filtered_read_asks_for_the_metadata_once() -> None:
    table = Shared(schema(id="long"), [DataFile("1", pa.table({"id": [1, 2]}))])
    with providing(table) as provider:
        frame = provider.frame()
        assert frame.schema.names == ["id"]
        assert frame.where("id > 1").to_arrow().num_rows == 1
        assert frame.where("id > 0").select("id").to_arrow().num_rows == 2
        asked = [asked.path.rpartition("/")[2] for asked in provider.asked]
    assert asked.count("metadata") == 1
    assert asked.count("query") == 2


@pytest.mark.parametrize("text", ["TRUE", "True", "true"])
@pytest.mark.parametrize("response_format", ["delta", "parquet"])
def test_a_feed_is_on_in_any_case_of_its_property(tmp_path: Path, text: str, response_format: str) -> None:
    path = tmp_path / "t"
    tables.create(str(path), {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": text})
    tables.update(str(path), {"id": "id + 10"}, "id = 1")
    expected = texts_of(lakeport.scan(str(path)).changes(0))
    assert len(expected) == 4
    with (
        running(sharing({"a.b.t": path}, history_shared=True)) as started,
        server_at(started.endpoint, formats=(response_format,)) as client,
    ):
        assert texts_of(frame_of(client, "a.b.t").changes(0)) == expected


def test_a_feed_whose_property_is_no_flag_keeps_from_changes_only(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = TableBuilder(default_engine(), str(path), struct(id="long"), (), {"delta.enableChangeDataFeed": "yes"})
    table.create(table.add({"id": [1]}))
    with pytest.raises(CorruptTableError, match="'yes': it must be true or false"):
        lakeport.scan(str(path)).changes(0).to_arrow()
    with running(sharing({"a.b.t": path}, history_shared=True)) as started:
        for response_format in ("delta", "parquet"):
            with server_at(started.endpoint, formats=(response_format,)) as client:
                assert frame_of(client, "a.b.t").count() == 1
                with pytest.raises(LakeportError):
                    frame_of(client, "a.b.t").changes(0).to_arrow()


def test_the_history_of_a_shared_table_is_not_told(own: SharingServer) -> None:
    with pytest.raises(UnsupportedFeatureError, match="do not expose the history"):
        frame_of(own, "sales.eu.orders").history()
