"""The servers do what the project relies on, seen through obstore alone."""

from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError

from tests.interop.servers import Bucket


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
