"""Temporary credentials by MinIO, which holds sessions to their policies: what they open, and what they do not."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import ObjectStore, from_url

import lakeport
from lakeport import tables
from lakeport.errors import AccessDeniedError
from lakeport.server.catalog.model import Table
from lakeport.server.credentials import CredentialVendor
from lakeport.sharing.models import Credentials
from tests.interop.buckets import options
from tests.interop.minio_role import ROLE
from tests.interop.servers import NAME, Bucket, s3_bucket


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """Two tables whose names begin alike, one of them with a second location."""
    with s3_bucket(tmp_path_factory.mktemp("minio")) as bucket:
        tables.create(f"{bucket.url}/data/t1", {"id": [1, 2]}, storage_options=options(bucket))
        tables.create(f"{bucket.url}/data/t10", {"id": [3]}, storage_options=options(bucket))
        bucket.put("more/t1/part", b"second")
        yield bucket


@pytest.fixture(scope="module")
def table() -> Table:
    return Table(
        id="6c28ff2a-1b2f-4c8e-9e75-2a57d2b1e3c4",
        share="s",
        schema="d",
        name="t",
        location=f"s3a://{NAME}/data/t1",
        auxiliary_locations=(f"s3a://{NAME}/more/t1",),
        access_modes=("dir",),
        history_shared=True,
    )


def vend(minio: Bucket, table: Table, location: str | None = None) -> Credentials:
    return CredentialVendor({"aws": {"roleArn": ROLE}}, options(minio)).credentials(table, location)


def keys(given: Credentials) -> dict[str, str]:
    """As obstore takes them."""
    assert given.aws_temp_credentials is not None
    temporary = given.aws_temp_credentials
    return {
        "access_key_id": temporary.access_key_id,
        "secret_access_key": temporary.secret_access_key,
        "session_token": temporary.session_token,
    }


@pytest.fixture(scope="module")
def opened(minio: Bucket, table: Table) -> ObjectStore:
    """The bucket, as a recipient with the credentials of the table sees it."""
    return from_url(minio.url, **minio.options | keys(vend(minio, table)))


def test_the_table_is_read_with_nothing_but_the_credentials(minio: Bucket, table: Table) -> None:
    given = vend(minio, table)
    orders = lakeport.scan(given.location, storage_options=options(minio, **keys(given)))
    assert sorted(orders.to_arrow()["id"].to_pylist()) == [1, 2]


def test_the_credentials_expire_when_they_say(minio: Bucket, table: Table) -> None:
    vendor = CredentialVendor({"aws": {"roleArn": ROLE}}, options(minio), validity_seconds=900)
    given = vendor.credentials(table, None)
    assert given.expiration_time / 1000 == pytest.approx(time.time() + 900, abs=30)


def test_everything_in_the_table_is_listed(opened: ObjectStore) -> None:
    listed = [meta["path"] for meta in obstore.list(opened, "data/t1").collect()]
    assert any(path.startswith("data/t1/_delta_log/") for path in listed)
    assert all(path.startswith("data/t1/") for path in listed)


REFUSED: dict[str, Callable[[ObjectStore], object]] = {
    "reading another table": lambda store: obstore.get(store, "data/t10/_delta_log/00000000000000000000.json"),
    "reading its other location": lambda store: obstore.get(store, "more/t1/part"),
    "listing another table": lambda store: obstore.list(store, "data/t10").collect(),
    "listing what is above it": lambda store: obstore.list(store, "data").collect(),
    "listing the bucket": lambda store: obstore.list(store).collect(),
    "writing": lambda store: obstore.put(store, "data/t1/new", b"x"),
    "overwriting": lambda store: obstore.put(store, "data/t1/_delta_log/00000000000000000000.json", b"x"),
    "writing elsewhere": lambda store: obstore.put(store, "data/t2/new", b"x"),
    "deleting": lambda store: obstore.delete(store, "data/t1/_delta_log/00000000000000000000.json"),
}


@pytest.mark.parametrize("attempt", REFUSED)
def test_everything_but_reading_the_table_is_refused(opened: ObjectStore, attempt: str) -> None:
    with pytest.raises(BaseError, match="AccessDenied"):
        REFUSED[attempt](opened)


def test_an_auxiliary_location_is_opened_by_credentials_of_its_own(minio: Bucket, table: Table) -> None:
    store = from_url(minio.url, **minio.options | keys(vend(minio, table, f"s3://{NAME}/more/t1")))
    assert bytes(obstore.get(store, "more/t1/part").bytes()) == b"second"
    with pytest.raises(BaseError, match="AccessDenied"):
        obstore.get(store, "data/t1/_delta_log/00000000000000000000.json")


def test_a_directory_in_the_table_is_all_that_its_credentials_open(minio: Bucket, table: Table) -> None:
    store = from_url(minio.url, **minio.options | keys(vend(minio, table, f"s3://{NAME}/data/t1/_delta_log")))
    (data,) = [meta["path"] for meta in obstore.list(minio.store(), "data/t1").collect() if "part-" in meta["path"]]
    assert obstore.get(store, "data/t1/_delta_log/00000000000000000000.json").bytes()
    with pytest.raises(BaseError, match="AccessDenied"):
        obstore.get(store, data)


def test_a_location_with_a_star_does_not_open_what_the_star_could_stand_for(minio: Bucket, table: Table) -> None:
    starred = replace(table, location=f"s3://{NAME}/data/*")
    given = vend(minio, starred)
    with pytest.raises(AccessDeniedError):
        lakeport.scan(f"s3://{NAME}/data/t1", storage_options=options(minio, **keys(given))).to_arrow()
