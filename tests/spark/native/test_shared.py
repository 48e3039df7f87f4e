"""Shared tables through Spark's own reader: what is fetched, and what happens when the storage does harm."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has none
from pyspark.sql import DataFrame, SparkSession

import lakeport.spark
from lakeport import tables
from lakeport.client.http.connections import ConnectionOptions
from lakeport.client.http.pool import HttpOptions, HttpPool
from lakeport.client.http.retrying import RetryOptions
from lakeport.frame import Frame
from lakeport.spark.driver import service_for
from tests.client.faulty_proxy import PASSING, Choose, Fault, Proxy, at_random, faulty_proxy
from tests.client.reading import frame_of, server_at
from tests.client.shares import Shared
from tests.parts import write_parts
from tests.properties import VECTORS
from tests.server.running import TOKEN, running, sharing, wait_until
from tests.spark.native.reading import native

pytestmark = pytest.mark.usefixtures("native_jar")

NAME = "sales.eu.orders"
ROWS = 60_000
COLUMNS = [f"c{number}" for number in range(8)]
STALL = "fs.lakeport.stall.seconds"
FORBIDDEN_TEXTS = (TOKEN, "X-Lakeport", "signature", "sig=", "expires=")


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four files in two partitions; some rows of two of them are deleted."""
    target = str(tmp_path_factory.mktemp("orders") / "orders")

    def part(number: int) -> pa.Table:
        ids = range(number * ROWS, (number + 1) * ROWS)
        columns = {name: [(i * 7919 + n) % 10**9 for i in ids] for n, name in enumerate(COLUMNS)}
        return pa.table({"id": ids, **columns, "part": [number % 2] * ROWS})

    write_parts(target, map(part, range(4)), partition_by=["part"], properties=VECTORS)
    tables.delete(target, f"id >= {2 * ROWS} AND id % 10 = 3")
    return target


@contextmanager
def through(orders: str, choose: Choose, life_seconds: int = 3600) -> Iterator[tuple[Frame, Proxy]]:
    """The table, whose server and files are behind a proxy that does harm; and the proxy."""
    connections = ConnectionOptions(read_seconds=1, connect_seconds=5)
    retries = RetryOptions(retries=12, first_wait_seconds=0.02, longest_wait_seconds=0.2)
    with ExitStack() as stack:
        content = sharing({NAME: orders}, history_shared=True)
        server = stack.enter_context(running(content, pre_signed_url_timeout_seconds=life_seconds))
        proxy = stack.enter_context(faulty_proxy(server.url, choose))
        pool = HttpPool(HttpOptions(connections=connections, retries=retries))
        client = stack.enter_context(server_at(server.endpoint.replace(server.url, proxy.url), pool))
        yield frame_of(client, NAME), proxy


def no_harm(path: str, byte_range: str | None) -> Fault:
    return Fault.NONE


@pytest.fixture
def impatient(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose tasks wait for a storage for a second only."""
    spark.conf.set(STALL, "1")
    yield spark
    spark.conf.unset(STALL)


def summed(rows: DataFrame) -> tuple[int, int, int]:
    found = rows.selectExpr("count(*)", "sum(id)", "sum(c7)").collect()[0]
    return int(found[0]), int(found[1]), int(found[2])


def expected(orders: str) -> tuple[int, int, int]:
    rows = lakeport.scan(orders).select("id", "c7").to_arrow()
    return rows.num_rows, sum(rows.column("id").to_pylist()), sum(rows.column("c7").to_pylist())


# What is fetched


def plan_of(rows: DataFrame) -> str:
    with redirect_stdout(StringIO()) as shown:
        rows.explain(extended=True)
    return shown.getvalue()


def test_filters_and_columns_that_are_asked_for_later_reach_the_files(spark: SparkSession, orders: str) -> None:
    with through(orders, no_harm) as (frame, proxy):
        rows = native(spark, frame)
        assert rows.selectExpr(*[f"sum({name})" for name in COLUMNS]).collect()
        whole, proxy.sent = proxy.sent, 0
        some = rows.where("part = 1 AND id < 70000").select("c1")
        plan = plan_of(some)
        assert "PartitionFilters: [isnotnull(part" in plan
        assert "PushedFilters: [IsNotNull(id), LessThan(id,70000)]" in plan
        assert "ReadSchema: struct<id:bigint,c1:bigint>" in plan
        assert some.count() == 10_000
        assert 0 < proxy.sent < whole / 4


def test_a_file_takes_few_requests(spark: SparkSession, orders: str) -> None:
    with through(orders, no_harm) as (frame, proxy):
        native(spark, frame).selectExpr(*[f"sum({name})" for name in COLUMNS]).collect()
        assert proxy.asked["file"] <= 4 * 3 + 2  # the end of a file, a row group, and two deletion vectors
        assert proxy.asked["query"] == 1


def test_no_url_and_no_token_is_in_a_plan(spark: SparkSession, orders: str) -> None:
    with through(orders, no_harm) as (frame, proxy):
        rows = native(spark, frame).where("id > 5")
        shown = plan_of(rows) + str(rows) + rows._jdf.queryExecution().toString()
        assert "lakeport://" in shown
        assert not [text for text in (*FORBIDDEN_TEXTS, proxy.url) if text in shown]


def test_a_scan_ends_when_no_plan_has_it_any_more(spark: SparkSession, orders: str) -> None:
    service = service_for(spark)
    frame = lakeport.scan(orders)
    native(spark, frame).createOrReplaceTempView("kept")
    before = len(service)
    for _ in range(3):
        native(spark, frame)
    assert len(service) == before + 3

    def ended() -> bool:
        gc.collect()
        spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
        time.sleep(0.2)
        service.forget(time.monotonic())
        return len(service) <= before

    wait_until(ended)
    assert spark.table("kept").count() == expected(orders)[0]
    spark.catalog.dropTempView("kept")


def test_a_scan_stays_for_an_rdd_that_has_outlived_its_frame(spark: SparkSession, orders: str) -> None:
    service = service_for(spark)
    rdd = native(spark, lakeport.scan(orders)).select("id").rdd
    for _ in range(5):
        gc.collect()
        spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
        time.sleep(0.2)
        service.forget(time.monotonic())
    assert rdd.count() == expected(orders)[0]


# Harm


def test_urls_that_expire_again_and_again_during_a_scan_are_renewed(spark: SparkSession, orders: str) -> None:
    def use_slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(0.7)
            yield batch

    life = 2
    with through(orders, no_harm, life_seconds=life) as (frame, proxy):
        rows = native(spark, frame).select("id", "c7").mapInArrow(use_slowly, "id long, c7 long")
        time.sleep(life + 0.5)
        began = time.monotonic()
        assert summed(rows) == expected(orders)
        assert time.monotonic() - began > 3 * life
        assert proxy.asked["query"] >= 3


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive(instead="the other seed"))])
def test_a_storage_that_does_harm_gives_the_right_rows(impatient: SparkSession, orders: str, seed: int) -> None:
    with through(orders, at_random(seed, 0.25, PASSING), life_seconds=5) as (frame, proxy):
        rows = native(impatient, frame)
        for _ in range(2):
            assert summed(rows) == expected(orders)
        assert proxy.done.total() > proxy.done[Fault.NONE] > 0


def test_many_ranges_that_are_refused_at_once_get_new_urls(spark: SparkSession, tmp_path: Path) -> None:
    """More than there are threads that fetch: none of them may wait for another."""
    path, refused = str(tmp_path / "wide"), set[str]()
    rows = pa.table({f"c{number}": range(number, number + 2000) for number in range(240)})
    tables.create(path, rows)
    planned = threading.Event()

    def choose(path: str, byte_range: str | None) -> Fault:
        if byte_range is None or not planned.is_set() or byte_range in refused:
            return Fault.NONE
        refused.add(byte_range)
        return Fault.FORBIDDEN

    with through(path, choose) as (frame, proxy):
        sums = native(spark, frame).selectExpr(*(f"sum(c{number})" for number in range(0, 240, 2)))
        found: list[tuple[int, ...]] = []
        planned.set()
        job = threading.Thread(target=lambda: found.extend(map(tuple, sums.collect())), daemon=True)
        job.start()
        job.join(120)
        assert proxy.done[Fault.FORBIDDEN] > 64
        assert found == [tuple(2000 * (number + 999) + 1000 for number in range(0, 240, 2))]


def test_a_url_that_is_refused_for_good_is_renewed(impatient: SparkSession, orders: str) -> None:
    """It has not expired: only the storage knows that it is worthless."""
    planned, revoked = threading.Event(), set[str]()

    def choose(path: str, byte_range: str | None) -> Fault:
        if ".parquet" in path and planned.is_set() and not revoked:
            revoked.add(path)
        return Fault.FORBIDDEN if path in revoked else Fault.NONE

    with through(orders, choose) as (frame, proxy):
        rows = native(impatient, frame)
        time.sleep(1.1)  # URLs of the same second are the same
        planned.set()
        assert summed(rows) == expected(orders)
        assert proxy.done[Fault.FORBIDDEN] > 0
        assert proxy.asked["query"] == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault.FORBIDDEN,
        *(
            pytest.param(fault, marks=pytest.mark.exhaustive(instead="one of the faults"))
            for fault in (Fault.TRUNCATED, Fault.ERROR, Fault.OTHER_BYTES, Fault.NO_RANGE)
        ),
    ],
)
def test_harm_that_does_not_end_is_an_error_that_tells_no_secret(
    impatient: SparkSession, orders: str, fault: Fault
) -> None:
    def choose(path: str, byte_range: str | None) -> Fault:
        return fault if byte_range else Fault.NONE

    with through(orders, choose) as (frame, proxy):
        rows = native(impatient, frame).where("part = 0")  # these files have no deletion vectors
        with pytest.raises(Py4JJavaError) as caught:
            summed(rows)
        text = str(caught.value)
        assert "file of the table" in text
        assert not [word for word in (*FORBIDDEN_TEXTS, proxy.url) if word in text]


def test_a_job_that_is_cancelled_ends_at_once_though_the_storage_stalls(spark: SparkSession, orders: str) -> None:
    planned, asked = threading.Event(), threading.Event()

    def choose(path: str, byte_range: str | None) -> Fault:
        if not byte_range or not planned.is_set():
            return Fault.NONE
        asked.set()
        return Fault.STALL

    with through(orders, choose) as (frame, _):
        rows = native(spark, frame).where("part = 0")
        planned.set()
        failed: list[BaseException] = []

        def job() -> None:
            spark.sparkContext.setJobGroup("to cancel", "", interruptOnCancel=True)
            try:
                summed(rows)
            except Py4JJavaError as error:
                failed.append(error)

        thread = threading.Thread(target=job)
        thread.start()
        assert asked.wait(60)
        began = time.monotonic()
        spark.sparkContext.cancelJobGroup("to cancel")
        thread.join(60)
        assert failed
        assert time.monotonic() - began < 10
        tracker = spark.sparkContext.statusTracker()
        assert not tracker.getActiveJobsIds()


# load, explain


def test_load_reads_shared_tables_and_paths_with_the_options_of_the_formats(
    spark: SparkSession, shared: Shared, tmp_path: Path
) -> None:
    target = shared.target("sales.eu.orders")
    assert lakeport.spark.load(spark, target).count() == 4
    assert lakeport.spark.load(spark, target, versionAsOf=0).count() == 3
    assert lakeport.spark.load(spark, str(shared.folder / "orders"), versionasof="0", columns="id").columns == ["id"]
    changes = lakeport.spark.load(spark, target, readChangeFeed=True, startingVersion=1)
    assert [row._change_type for row in changes.collect()] == ["insert"]
    with pytest.raises(ValueError, match="versionAsOf"):
        lakeport.spark.load(spark, target, versionOf=1)


def test_explain_tells_which_reader_is_used_and_why(spark: SparkSession, shared: Shared) -> None:
    target = shared.target("sales.eu.orders")
    assert lakeport.spark.explain(target, spark).endswith("\nreader    Spark's own")
    odd = lakeport.scan(target).where("amount % 7 = 0")
    assert "reader    Python: the filter" in lakeport.spark.explain(odd, spark)
    assert "reader    Python: changes" in lakeport.spark.explain(odd.changes(0), spark)
