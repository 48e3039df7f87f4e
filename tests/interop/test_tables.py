"""Delta tables on real object stores: the same code as on a disk, through every kind of storage."""

from dataclasses import dataclass
from urllib.parse import quote

import numpy as np
import pytest

import lakeport
from lakeport.cli.app import run
from lakeport.engine import default_engine
from lakeport.engine.storage.storage import Storage
from lakeport.errors import AccessDeniedError, LakeportError, MissingFileError, StorageError, TableNotFoundError
from lakeport.frame import Frame
from lakeport.testing.builder import Action, TableBuilder, protocol, struct
from tests.interop.buckets import CITIES, options
from tests.interop.servers import Bucket

BIG_ROWS = 400_000


@dataclass(frozen=True)
class Objects:
    """A table as objects: each file's name below the table, exactly as it is stored, and its bytes."""

    files: dict[str, bytes]

    def put(self, bucket: Bucket, prefix: str, without: str | None = None) -> Frame:
        for name, data in self.files.items():
            if name != without:
                bucket.put(f"{prefix}/{name}", data)
        return lakeport.scan(f"{bucket.url}/{prefix}", storage_options=options(bucket))

    def named(self, part: str) -> str:
        return next(name for name in self.files if part in name)


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """Three versions: nine odd partitions; a file of several megabytes, and a checkpoint; three rows deleted."""
    root = tmp_path_factory.mktemp("table") / "orders"
    schema = struct(id="long", noise="double", city="string")
    features = protocol(features=["deletionVectors"])
    table = TableBuilder(default_engine(), str(root), schema, ["city"], protocol=features)
    small = [add(table, city, range(i * 10, i * 10 + 10)) for i, city in enumerate(CITIES)]
    table.create(*small, told("CREATE TABLE AS SELECT"))
    table.commit(add(table, "Oslo", range(1000, 1000 + BIG_ROWS)), told("WRITE"))
    table.checkpoint()
    table.commit(*table.delete(small[1], [0, 4, 9]), told("DELETE"))
    return Objects({p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()})


def add(table: TableBuilder, city: str, ids: range) -> Action:
    """A file in a folder that is named by the city, sign for sign, but a percent sign and a colon as Spark does."""
    name = f"city={city.replace('%', '%25').replace(':', '%3A')}/{ids.start} #.parquet"
    data = {"id": list(ids), "noise": np.random.default_rng(ids.start).random(len(ids))}
    return table.add(data, {"city": city}, name=name, path=quote(name, safe="/="), row_group_size=50_000)


def told(operation: str) -> Action:
    return {"commitInfo": {"timestamp": 0, "operation": operation}}


@pytest.fixture
def orders(bucket: Bucket, table: Objects) -> Frame:
    return table.put(bucket, "orders")


def test_the_big_file_is_larger_than_what_is_fetched_in_one_request(table: Objects) -> None:
    assert len(table.files[table.named("/1000 ")]) > 2 << 20


def test_every_row_of_every_odd_partition_is_read(orders: Frame) -> None:
    rows = orders.where("id < 1000").select("id", "city").to_arrow()
    read = sorted(zip(rows["id"].to_pylist(), rows["city"].to_pylist(), strict=True))
    assert read == [(i, CITIES[i // 10]) for i in range(90) if i not in (10, 14, 19)]


def test_a_large_file_is_read_by_ranges_to_the_last_row(orders: Frame) -> None:
    rows = orders.where("id >= 1000").to_arrow()
    assert rows["id"].to_numpy().tolist() == list(range(1000, 1000 + BIG_ROWS))
    assert np.array_equal(rows["noise"].to_numpy(), np.random.default_rng(1000).random(BIG_ROWS))


@pytest.mark.parametrize("city", CITIES)
def test_a_filter_on_a_partition_leaves_its_file_alone(orders: Frame, city: str) -> None:
    found = orders.where(lakeport.col("city") == city).where("id < 1000")
    assert len(found.files()) == 1
    assert found.count() == (7 if city == CITIES[1] else 10)


def test_rows_are_counted(orders: Frame) -> None:
    assert orders.count() == 87 + BIG_ROWS
    assert orders.where("id BETWEEN 5 AND 14").count() == 8


def test_earlier_versions_are_read(orders: Frame) -> None:
    assert (orders.version, orders.at(version=1).count(), orders.at(version=0).count()) == (2, 90 + BIG_ROWS, 90)
    assert orders.at(version=1).where("id = 14").count() == 1


def test_the_history_is_told(orders: Frame) -> None:
    assert [(c.version, c.operation) for c in orders.history()] == [
        (2, "DELETE"),
        (1, "WRITE"),
        (0, "CREATE TABLE AS SELECT"),
    ]


def test_the_command_line_takes_the_options_of_the_storage(
    bucket: Bucket, orders: Frame, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [f"--option={name}={value}" for name, value in options(bucket).items()]
    assert run(["count", orders.target, "--where", "city = '50%20'", *pairs]) == 0
    assert capsys.readouterr().out == "10\n"


def test_a_missing_table_is_reported_as_missing(bucket: Bucket) -> None:
    with pytest.raises(TableNotFoundError, match="nowhere"):
        lakeport.scan(f"{bucket.url}/nowhere", storage_options=options(bucket)).count()


def test_a_missing_bucket_is_an_error_that_names_it(bucket: Bucket) -> None:
    with pytest.raises(LakeportError, match="no-such-bucket"):
        lakeport.scan(f"{bucket.url.partition(':')[0]}://no-such-bucket/t", storage_options=options(bucket)).count()


@pytest.mark.parametrize(
    ("place", "part"),
    [("without-small", "São Paulo"), ("without-large", "/1000 "), ("without-vector", "deletion_vector")],
)
def test_a_missing_file_is_named(bucket: Bucket, table: Objects, place: str, part: str) -> None:
    name = table.named(part)
    with pytest.raises(MissingFileError) as error:
        table.put(bucket, place, without=name).to_arrow()
    assert error.value.path == f"{bucket.url}/{place}/{name}"


@pytest.mark.parametrize(
    ("store", "wrong"), [("s3", {"secret_access_key": "wrong"}), ("azure", {"account_key": "d3Jvbmc="})]
)
def test_wrong_credentials_are_refused(
    request: pytest.FixtureRequest, table: Objects, store: str, wrong: dict[str, str]
) -> None:
    bucket = request.getfixturevalue(store)
    table.put(bucket, "secret")
    with pytest.raises(AccessDeniedError, match="credentials"):
        lakeport.scan(f"{bucket.url}/secret", storage_options=options(bucket, **wrong)).count()


def test_a_server_that_is_not_there_is_a_storage_error() -> None:
    nobody = {"endpoint": "http://127.0.0.1:9", "access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
    with pytest.raises(StorageError):
        lakeport.scan("s3://bucket/t", storage_options={**nobody, "allow_http": True}).count()


def test_a_path_that_exists_is_never_written_over(writable_bucket: Bucket) -> None:
    storage = Storage(options(writable_bucket))
    path = f"{writable_bucket.url}/written/0.json"
    storage.write(path, b"first")
    with pytest.raises(FileExistsError):
        storage.write(path, b"second")
    assert storage.read(path) == b"first"
