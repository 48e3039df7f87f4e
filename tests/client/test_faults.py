"""URLs that expire and storages that fail: a read ends with the right rows, or with a clear error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.client.http.pool import HttpPool
from lakeport.errors import AccessDeniedError, LakeportError, MissingFileError, SharingError, StorageError
from lakeport.frame import Frame
from tests.client.faulty_proxy import PASSING, Choose, Fault, Proxy, at_random, faulty_proxy
from tests.client.pools import patient_pool
from tests.client.reading import frame_of, server_at
from tests.parts import write_parts
from tests.properties import FEED, VECTORS
from tests.rows import texts_of
from tests.server.running import Running, running, sharing
from tests.soak import sharing_faults

FILES = 24
NAME = "sales.eu.orders"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of which some are fetched whole and some by ranges, with deletion vectors."""
    path = tmp_path_factory.mktemp("faults") / "orders"

    def part(number: int) -> pa.Table:
        count = 400_000 if number % 8 == 0 else 200
        ids = pa.array(range(number * 1_000_000, number * 1_000_000 + count))
        return pa.table({"id": ids, "text": pa.array([f"{i * 7919 % 10**9}" for i in range(count)])})

    write_parts(path, map(part, range(FILES)), properties=FEED | VECTORS)
    tables.delete(str(path), "id % 1000000 = 17")
    return path


@pytest.fixture(scope="module")
def expected(orders: Path) -> pa.Table:
    return in_order(lakeport.scan(str(orders)).to_arrow())


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


@pytest.fixture(scope="module")
def server(orders: Path) -> Iterator[Running]:
    with running(sharing({NAME: orders}, history_shared=True)) as started:
        yield started


def through(proxy: Proxy, server: Running, http: HttpPool | None = None) -> Frame:
    endpoint = server.endpoint.replace(server.url, proxy.url)
    return frame_of(server_at(endpoint, http or patient_pool()), NAME)


@pytest.mark.parametrize("seed", range(3))
def test_faults_that_pass_are_not_noticed(server: Running, expected: pa.Table, seed: int) -> None:
    with faulty_proxy(server.url, at_random(seed, 0.3, PASSING)) as proxy:
        assert in_order(through(proxy, server).to_arrow()).equals(expected)
        assert through(proxy, server).where("id % 1000000 = 5").count() == FILES
        assert proxy.done.total() - proxy.done[Fault.NONE] > 5


@pytest.mark.parametrize("fault", sorted(PASSING, key=str), ids=lambda fault: fault.name)
def test_each_fault_that_passes_is_not_noticed(server: Running, expected: pa.Table, fault: Fault) -> None:
    with faulty_proxy(server.url, at_random(1, 0.3, (fault,), (Fault.NONE,))) as proxy:
        assert in_order(through(proxy, server).to_arrow()).equals(expected)
        assert proxy.done[fault]


@pytest.mark.parametrize("seed", range(4))
def test_no_fault_at_all_makes_rows_disappear(server: Running, orders: Path, expected: pa.Table, seed: int) -> None:
    local = texts_of(lakeport.scan(str(orders)).changes(FILES))
    with faulty_proxy(server.url, at_random(seed, 0.1, tuple(Fault))) as proxy:
        outcomes: list[str] = []
        for _ in range(4):
            frame = through(proxy, server)
            try:
                assert in_order(frame.select("id", "text").to_arrow()).equals(expected)
                assert texts_of(frame.changes(FILES)) == local
            except LakeportError as error:
                outcomes.append(str(error))
        assert all(any(word in text for word in CLEAR) for text in outcomes), outcomes


CLEAR = ("but the request began at byte", "did not say which bytes", "gave up after", "even by a new URL")
"""Words of the errors that these faults may end in."""


@pytest.mark.parametrize("fault", [Fault.OTHER_BYTES, Fault.NO_RANGE], ids=lambda fault: fault.name)
def test_a_storage_that_sends_other_bytes_is_an_error(server: Running, fault: Fault) -> None:
    with faulty_proxy(server.url, at_random(1, 1.0, (fault,), (Fault.NONE,))) as proxy:
        with pytest.raises(StorageError, match=r"but the request began at byte|did not say which bytes") as failed:
            through(proxy, server).to_arrow()
        assert "?" not in str(failed.value)


def test_a_storage_that_refuses_every_url_is_an_error_that_says_so(server: Running) -> None:
    with faulty_proxy(server.url, at_random(1, 1.0, (Fault.FORBIDDEN,), (Fault.NONE,))) as proxy:
        with pytest.raises(AccessDeniedError, match=r"even by a new URL \(status 403\); ask the provider"):
            through(proxy, server).limit(5).to_arrow()
        assert proxy.asked["query"] <= 3


def once(fault: Fault, every: int) -> Choose:
    """The fault for the first request of one in so many files."""
    seen: set[str] = set()

    def choose(path: str, byte_range: str | None) -> Fault:
        file = path.partition("?")[0]
        if not byte_range or file in seen:
            return Fault.NONE
        seen.add(file)
        return fault if len(seen) % every == 0 else Fault.NONE

    return choose


def test_urls_that_are_refused_in_the_middle_are_renewed(server: Running, expected: pa.Table) -> None:
    with faulty_proxy(server.url, once(Fault.FORBIDDEN, 5)) as proxy:
        assert in_order(through(proxy, server).to_arrow()).equals(expected)
        assert proxy.asked["query"] > 1
        assert proxy.done[Fault.FORBIDDEN] > 2


@pytest.mark.parametrize(
    ("of_files", "of_answers", "error"),
    [(Fault.ERROR, Fault.NONE, StorageError), (Fault.NONE, Fault.BUSY, SharingError)],
    ids=["storage", "server"],
)
def test_who_fails_for_good_is_given_up(
    server: Running, of_files: Fault, of_answers: Fault, error: type[LakeportError]
) -> None:
    with (
        faulty_proxy(server.url, at_random(1, 1.0, (of_files,), (of_answers,))) as proxy,
        pytest.raises(error, match="gave up after 3 attempts"),
    ):
        through(proxy, server, patient_pool(2)).limit(1).to_arrow()


# URLs that live for a short time.


def write_small_files(path: Path, files: int) -> None:
    write_parts(path, ({"id": [number * 2, number * 2 + 1]} for number in range(files)), properties=FEED)


@pytest.mark.parametrize("history", [True, False], ids=["history", "no history"])
def test_urls_are_renewed_while_a_writer_commits(tmp_path: Path, history: bool) -> None:
    path = tmp_path / "orders"
    write_small_files(path, 40)
    with (
        running(sharing({NAME: path}, history_shared=history), pre_signed_url_timeout_seconds=1) as started,
        faulty_proxy(started.url, lambda path, byte_range: Fault.NONE) as proxy,
    ):
        frame = through(proxy, started)
        found: list[int] = []
        for number, batch in enumerate(frame.to_batches()):
            found += batch.column("id").to_pylist()
            if number == 3:
                tables.append(str(path), {"id": [1000]})
                tables.optimize(str(path))
            time.sleep(0.06)
        assert sorted(found) == list(range(80))
        assert proxy.asked["query"] > 2
        assert frame.where("id > 70").count() == 9
        assert frame_of(server_at(started.endpoint), NAME).count() == 81


def test_the_urls_of_changes_are_renewed(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    write_small_files(path, 30)
    with (
        running(sharing({NAME: path}, history_shared=True), pre_signed_url_timeout_seconds=1) as started,
        faulty_proxy(started.url, lambda path, byte_range: Fault.NONE) as proxy,
    ):
        changes = through(proxy, started).changes(0)
        found: list[int] = []
        for number, batch in enumerate(changes.to_batches()):
            found += batch.column("id").to_pylist()
            if number == 2:
                tables.append(str(path), {"id": [1000]})
            time.sleep(0.06)
        assert sorted(found) == list(range(60))
        assert proxy.asked["changes"] > 1


def test_a_file_that_is_gone_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    write_small_files(path, 3)
    with running(sharing({NAME: path})) as started:
        frame = frame_of(server_at(started.endpoint, patient_pool(1)), NAME)
        _ = frame.snapshot
        next(path.glob("*.parquet")).unlink()
        with pytest.raises(MissingFileError):
            frame.to_arrow()


def test_readers_through_faults_while_a_writer_commits(tmp_path: Path) -> None:
    report = sharing_faults.run(tmp_path, readers=2, seconds=4, rate=0.1, seed=3)
    assert report.reads > 1
    assert report.faults.total() > report.faults[Fault.NONE]
