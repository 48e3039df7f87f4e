"""Which paths get a URL, and what the URL says."""

from __future__ import annotations

import hmac
import logging
from base64 import b64encode
from dataclasses import replace
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from lakeport.errors import SharingError, StorageError
from lakeport.server.catalog.model import Table
from lakeport.server.signing.disk import FileUrl, FileUrls
from lakeport.server.signing.signers import Signers, is_clean

KEY = b"a key for tests, as long as any"
NOW = 1_700_000_000.25
CREDENTIALS = {"region": "us-east-1", "access_key_id": "AKID", "secret_access_key": "not to be seen"}
TABLE = Table(id="4b1c", share="sales", schema="eu", name="orders", location="/data/t1")


def sign(table: Table, *paths: str, public_url: str = "https://share.example.org") -> list[str]:
    signers = Signers(KEY, endpoint="/delta-sharing", seconds=3600, now=lambda: NOW)
    return signers.for_table(table, public_url, "ann").sign(paths)


def parse(url: str) -> FileUrl:
    parts = urlsplit(url)
    found = FileUrls(KEY, "/delta-sharing").parse(parts.path.removeprefix("/delta-sharing/files"), parts.query)
    assert found is not None
    return found


def test_a_file_on_a_disk_gets_a_url_of_this_server() -> None:
    (url,) = sign(TABLE, "/data/t1/day=1/a.parquet")
    assert url.startswith("https://share.example.org/delta-sharing/files/4b1c/")
    assert "/day=1/a.parquet?expires=1700003600&recipient=ann&X-Amz-Signature=" in url
    assert "/data/t1" not in url
    assert FileUrls(KEY, "/delta-sharing").is_signed(parse(url))


def test_only_the_key_makes_a_signature() -> None:
    (url,) = sign(TABLE, "/data/t1/a.parquet")
    assert not FileUrls(KEY + b".", "/delta-sharing").is_signed(parse(url))


@pytest.mark.parametrize(
    "change",
    [{"table_id": "4b1d"}, {"location": "00"}, {"path": "b.parquet"}, {"expires": 1700003601}, {"recipient_id": "bob"}],
)
def test_the_signature_covers(change: dict[str, object]) -> None:
    url = parse(sign(TABLE, "/data/t1/a.parquet")[0])
    assert not FileUrls(KEY, "/delta-sharing").is_signed(replace(url, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["a b.parquet", "100%.parquet", "%41.parquet", "a+b&c=d?e#f.parquet", "größe/日本.parquet"]
)
def test_any_name_comes_back_from_its_url(name: str) -> None:
    (url,) = sign(TABLE, f"/data/t1/{name}")
    assert url.isascii()
    assert " " not in url
    assert parse(url).path == name


def test_any_id_comes_back_from_its_url() -> None:
    assert parse(sign(replace(TABLE, id="a/b c%2F"), "/data/t1/a.parquet")[0]).table_id == "a/b c%2F"


@pytest.mark.parametrize(
    "path",
    [
        "/data/t10/a.parquet",
        "/data/t1",
        "/data/t1/",
        "/data/t1/a/",
        "/data/t1/../t2/a.parquet",
        "/data/t1/a/../../t2/a.parquet",
        "/data/t1/..",
        "/data/t1/./a.parquet",
        "/data/t1//a.parquet",
        "/data/t1//etc/passwd",
        "/data/T1/a.parquet",
        "/etc/passwd",
        "a.parquet",
        "",
        "s3://data/t1/a.parquet",
        "file:/data/t1/a.parquet",
    ],
)
def test_a_path_outside_of_the_locations_is_never_signed(path: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(SharingError, match="auxiliaryLocations") as refused:
        sign(TABLE, "/data/t1/good.parquet", path)
    assert (refused.value.status, refused.value.code) == (400, "UNSUPPORTED_OPERATION")
    assert "/data" not in str(refused.value)
    assert path in caplog.text


@pytest.mark.parametrize(
    "path",
    [
        "s3://bucket/t10/a.parquet",
        "s3://bucket/t1/../t2/a.parquet",
        "s3a://bucket/t1/../t2/a.parquet",
        "s3a://bucket/t1//a.parquet",
        "s3a://bucket/t1/a/",
        "s3://bucket2/t1/a.parquet",
        "gs://bucket/t1/a.parquet",
        "s3:///bucket/t1/a.parquet?",
        "https://bucket.s3.amazonaws.com/t1/a.parquet",
    ],
)
def test_an_object_outside_of_the_locations_is_never_signed(path: str) -> None:
    table = replace(TABLE, location="s3://bucket/t1", storage=CREDENTIALS)
    with pytest.raises(SharingError, match="auxiliaryLocations"):
        sign(table, path)


@pytest.mark.parametrize(
    "name", [".hidden", "..", "...", "a/...b", "a/.b", "..a", "a..", "a./b", "x/..", "./x", "a//b"]
)
def test_only_whole_segments_of_periods_are_steps(name: str) -> None:
    assert is_clean(name) == (not {"", ".", ".."}.intersection(name.split("/")))


@pytest.mark.parametrize("location", ["/data/t1/", "file:/data/t1", "file:///data/t1/", "FILE://localhost/data/t1"])
def test_a_location_may_be_spelled_in_other_ways(location: str) -> None:
    assert sign(replace(TABLE, location=location), "/data/t1/a") == sign(TABLE, "/data/t1/a")


def test_urls_come_in_the_order_of_the_paths_wherever_these_are() -> None:
    table = replace(TABLE, auxiliary_locations=("/clones/source", "s3a://bucket/deep/source"), storage=CREDENTIALS)
    paths = ["/clones/source/1", "s3://bucket/deep/source/2", "/data/t1/3", "s3a://bucket/deep/source/4", "/data/t1/5"]
    urls = sign(table, *paths)
    assert [urlsplit(url).path[-2:] for url in urls] == ["/1", "/2", "/3", "/4", "/5"]
    assert [urlsplit(url).hostname == "share.example.org" for url in urls] == [True, False, True, False, True]
    assert parse(urls[0]).location != parse(urls[2]).location == parse(urls[4]).location


def test_the_file_systems_of_hadoop_have_other_names_for_one_storage() -> None:
    key = {"account_key": "c2VjcmV0"}
    account = "files@account.dfs.core.windows.net/t1"
    for location in (f"abfss://{account}", "wasbs://files@account.blob.core.windows.net/t1"):
        urls = sign(replace(TABLE, location=location, storage=key), f"abfs://{account}/a", f"abfss://{account}/b")
        assert [urlsplit(url).path for url in urls] == ["/files/t1/a", "/files/t1/b"]


def test_a_key_in_a_bucket_is_its_plain_path() -> None:
    table = replace(TABLE, location="s3://bucket", storage=CREDENTIALS)
    (url,) = sign(table, "s3://bucket/day=1/a %41+ü.parquet")
    assert unquote(urlsplit(url).path) == "/bucket/day=1/a %41+ü.parquet"
    assert "X-Amz-Expires=3600&" in url
    assert CREDENTIALS["secret_access_key"] not in url


def test_options_of_the_table_come_before_those_of_the_server() -> None:
    signers = Signers(KEY, endpoint="", seconds=60, storage=CREDENTIALS | {"endpoint": "http://one.example.org"})
    table = replace(TABLE, location="s3://bucket/t1", storage={"endpoint": "http://two.example.org"})
    (url,) = signers.for_table(table, "", "ann").sign(["s3://bucket/t1/a"])
    assert url.startswith("http://two.example.org/bucket/t1/a?")


def test_a_store_that_cannot_be_opened_is_an_error_without_its_secrets() -> None:
    table = replace(TABLE, location="s3://bucket/t1", storage=CREDENTIALS | {"no_such_option": "x"})
    with pytest.raises(StorageError, match="cannot open") as failed:
        sign(table, "s3://bucket/t1/a")
    assert CREDENTIALS["secret_access_key"] not in str(failed.value)


def test_urls_are_good_at_least_as_long_as_is_said() -> None:
    signer = Signers(KEY, endpoint="/x", seconds=3600, now=lambda: NOW).for_table(TABLE, "http://h", "ann")
    said = signer.expires(int(NOW * 1000))
    assert said == 1_700_003_600_000 == parse_expiry(signer.sign(["/data/t1/a"])[0]) * 1000


def parse_expiry(url: str) -> int:
    return int(urlsplit(url).query.removeprefix("expires=").partition("&")[0])


def test_no_paths_give_no_urls() -> None:
    assert sign(TABLE) == []


BLOBS = replace(TABLE, location="az://container/t1")


def test_a_blob_is_signed_by_its_plain_name() -> None:
    table = replace(BLOBS, storage={"account_name": "account", "account_key": "c2VjcmV0"})
    (url,) = sign(table, "az://container/t1/day=1/a b%41.parquet")
    assert url.startswith("https://account.blob.core.windows.net/container/t1/day=1/a%20b%2541.parquet?")
    text = (
        "r\n\n2023-11-14T23:13:20Z\n/blob/account/container/t1/day=1/a b%41.parquet\n\n\n\n2023-11-03\nb\n\n\n\n\n\n\n"
    )
    right = b64encode(hmac.digest(b"secret", text.encode(), "sha256")).decode()
    query = parse_qs(urlsplit(url).query)
    assert query == {"sv": ["2023-11-03"], "se": ["2023-11-14T23:13:20Z"], "sr": ["b"], "sp": ["r"], "sig": [right]}


def test_the_key_of_an_account_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = sign(replace(BLOBS, storage={"account_name": "account", "account_key": "c2VjcmV0"}), "az://container/t1/a")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCESS_KEY", "c2VjcmV0")
    assert sign(BLOBS, "az://container/t1/a") == given


def test_names_that_an_identity_cannot_sign_are_refused() -> None:
    table = replace(BLOBS, storage={"account_name": "account", "token": "x"})
    with pytest.raises(SharingError, match="account_key") as refused:
        sign(table, "az://container/t1/a b.parquet")
    assert (refused.value.status, refused.value.code) == (400, "UNSUPPORTED_OPERATION")
