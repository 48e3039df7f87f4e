"""The servers do what the project relies on, seen through obstore alone; and the engine keeps its contract on them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError

from lakeport.engine import default_engine
from lakeport.engine.storage.storage import Storage
from lakeport.errors import AccessDeniedError, StorageError
from lakeport.kernel.engine import Engine
from lakeport.testing import EngineContract
from lakeport.testing.contracts.storage import LARGE
from tests.interop.buckets import options
from tests.interop.servers import NAME, Bucket, s3_bucket, s3_client


def test_an_object_is_read_whole_and_by_range(bucket: Bucket) -> None:
    bucket.put("read/data.bin", b"0123456789")
    store = bucket.store()
    assert bytes(obstore.get(store, "read/data.bin").bytes()) == b"0123456789"
    assert bytes(obstore.get_range(store, "read/data.bin", start=3, length=4)) == b"3456"
    ranges = obstore.get_ranges(store, "read/data.bin", starts=[0, 8], lengths=[2, 2])
    assert [bytes(part) for part in ranges] == [b"01", b"89"]


def test_a_listing_names_every_object_under_a_prefix(bucket: Bucket) -> None:
    names = [f"log/{version:020d}.json" for version in range(12)]
    for name in names:
        bucket.put(name, b"{}")
    assert sorted(meta["path"] for meta in obstore.list(bucket.store(), "log").collect()) == names


def test_a_listing_from_an_offset_misses_nothing_after_it(bucket: Bucket) -> None:
    names = [f"offset/{version:020d}.json" for version in range(12)]
    for name in names:
        bucket.put(name, b"{}")
    listed = [meta["path"] for meta in obstore.list(bucket.store(), "offset", offset=names[7]).collect()]
    assert sorted(path for path in listed if path > names[7]) == names[8:]


def test_a_missing_object_is_reported_as_missing(bucket: Bucket) -> None:
    with pytest.raises(FileNotFoundError):
        obstore.get(bucket.store(), "nothing/here")


def test_a_name_with_signs_that_need_escaping_survives(bucket: Bucket) -> None:
    name = "part=a b%20c/ü+#.parquet"
    bucket.put(name, b"x")
    store = bucket.store()
    assert [meta["path"] for meta in obstore.list(store, "part=a b%20c").collect()] == [name]
    assert bytes(obstore.get(store, name).bytes()) == b"x"


def test_creating_an_object_that_exists_is_refused_and_changes_nothing(writable_bucket: Bucket) -> None:
    store = writable_bucket.store()
    obstore.put(store, "commit/0.json", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "commit/0.json", b"second", mode="create")
    assert bytes(obstore.get(store, "commit/0.json").bytes()) == b"first"


def test_of_many_writers_who_create_one_object_exactly_one_succeeds(writable_bucket: Bucket) -> None:
    store = writable_bucket.store()

    def create(writer: int) -> bytes | None:
        data = b"%d" % writer
        try:
            obstore.put(store, "race/0.json", data, mode="create")
        except AlreadyExistsError:
            return None
        return data

    with ThreadPoolExecutor(16) as pool:
        winners = [data for data in pool.map(create, range(64)) if data is not None]
    assert winners == [bytes(obstore.get(store, "race/0.json").bytes())]


class TestEngineOnObjectStores(EngineContract):
    @pytest.fixture
    def engine(self, writable_bucket: Bucket) -> Engine:
        return default_engine(options(writable_bucket))

    @pytest.fixture
    def root(self, writable_bucket: Bucket) -> str:
        return f"{writable_bucket.url}/contract/{uuid4().hex}"


@pytest.fixture
def lost_server(tmp_path: Path) -> Iterator[tuple[Bucket, ExitStack]]:
    """A bucket of its own, and a stack that stops its server when it is closed."""
    with ExitStack() as stack:
        yield stack.enter_context(s3_bucket(tmp_path)), stack


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_whole_bucket_is_listed(s3: Bucket) -> None:
    s3.put("at-the-root/x", b"1")
    listed = {file.path: file.size for file in Storage(options(s3)).list_all(s3.url)}
    assert listed[f"{s3.url}/at-the-root/x"] == 1


def test_nothing_of_a_large_object_is_seen_before_it_is_complete(writable_bucket: Bucket) -> None:
    storage = Storage(options(writable_bucket))
    output = storage.open_output(f"{writable_bucket.url}/growing/file")
    output.write(LARGE)
    assert list(storage.list_all(f"{writable_bucket.url}/growing")) == []
    output.close()
    assert [file.size for file in storage.list_all(f"{writable_bucket.url}/growing")] == [len(LARGE)]


def test_an_aborted_upload_is_given_up_at_the_server(s3: Bucket) -> None:
    output = Storage(options(s3)).open_output(f"{s3.url}/aborted")
    output.write(LARGE)
    client = s3_client(s3)
    wait_until(lambda: "Uploads" in client.list_multipart_uploads(Bucket=NAME, Prefix="aborted"))
    time.sleep(0.5)  # for the parts that are on their way
    output.abort()
    assert "Uploads" not in client.list_multipart_uploads(Bucket=NAME, Prefix="aborted")


@pytest.mark.parametrize("size", [10, len(LARGE)])
def test_a_connection_that_is_lost_is_a_storage_error(lost_server: tuple[Bucket, ExitStack], size: int) -> None:
    bucket, server = lost_server
    storage = Storage(options(bucket))
    path = f"{bucket.url}/lost"
    output = storage.open_output(path)
    output.write(LARGE[:size])
    server.close()

    def go_on() -> None:
        for _ in range(5):
            output.write(LARGE[:size])
        output.close()

    with pytest.raises(StorageError) as caught:
        go_on()
    assert caught.value.path == path
    output.abort()
    with pytest.raises(StorageError):
        storage.write(path, b"")
    with pytest.raises(StorageError):
        storage.delete([path])


def test_writing_with_wrong_credentials_is_access_denied(s3: Bucket) -> None:
    storage = Storage(options(s3, secret_access_key="wrong"))
    path = f"{s3.url}/denied/f"
    for attempt in (
        lambda: storage.write(path, b""),
        lambda: storage.open_output(path).close(),
        lambda: storage.delete([path]),
        lambda: list(storage.list_all(f"{s3.url}/denied")),
    ):
        with pytest.raises(AccessDeniedError):
            attempt()
