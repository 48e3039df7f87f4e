"""Which locations are the same, and which lie in others."""

import pytest

from lakeport.errors import SharingError
from lakeport.locations import Cloud, Location, cloud_of, file_path, is_url, parse_location, respelled, store_root
from lakeport.server.credentials.vendor import parse_directory


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/t", "s3a://b/t"),
        ("s3://b/t", "s3n://b/t"),
        ("s3://b/t", "S3://b/t/"),
        ("abfss://c@acct.dfs.core.windows.net/t", "abfs://c@acct.dfs.core.windows.net/t"),
        ("abfss://c@acct.dfs.core.windows.net/t", "wasbs://c@acct.blob.core.windows.net/t"),
        ("abfss://c@acct.dfs.core.windows.net/t", "wasb://c@ACCT.blob.core.windows.net/t"),
        ("abfss://c@acct.dfs.core.windows.net/t", "az://c/t"),
        ("abfss://c@acct.dfs.core.windows.net/t", "abfss://c@acct.DFS.core.windows.net/t"),
        ("gs://b/t", "gcs://b/t"),
    ],
)
def test_spellings_of_one_directory_are_equal(one: str, other: str) -> None:
    assert parse_location(one, "acct") == parse_location(other, "acct")


def test_the_parts_of_a_location_are_told() -> None:
    assert parse_location("gs://b/data/t 1/ü%20=?#") == Location(Cloud.GCS, "b", ("data", "t 1", "ü%20=?#"))
    assert parse_location("gs://b/data/t").prefix == "data/t/"
    assert parse_location("gs://b").prefix == parse_location("gs://b/").prefix == ""
    azure = parse_location("abfss://c@acct.dfs.core.windows.net/t")
    assert (azure.bucket, azure.account, azure.domain) == ("c", "acct", "dfs.core.windows.net")


@pytest.mark.parametrize(
    "inner", ["s3://b/data/t1", "s3a://b/data/t1/", "s3://b/data/t1/part=1", "s3://b/data/t1/t1/x"]
)
def test_a_directory_is_within_itself_and_its_parents(inner: str) -> None:
    assert parse_location(inner).is_within(parse_location("s3://b/data/t1"))
    assert parse_location(inner).is_within(parse_location("s3://b"))


@pytest.mark.parametrize(
    "outer",
    [
        "s3://b/data/t10",
        "s3://b/data/t",
        "s3://b/data",
        "s3://b",
        "s3://B/data/t1",
        "s3://b2/data/t1",
        "gs://b/data/t1",
    ],
)
def test_what_only_looks_alike_is_not_within(outer: str) -> None:
    assert not parse_location(outer).is_within(parse_location("s3://b/data/t1"))


@pytest.mark.parametrize(
    "outer",
    [
        "abfss://c@other.dfs.core.windows.net/t",
        "abfss://d@acct.dfs.core.windows.net/t",
        "abfss://c@acct.dfs.fabric.microsoft.com/t",
    ],
)
def test_another_account_container_or_cloud_of_azure_is_another_place(outer: str) -> None:
    assert not parse_location(outer).is_within(parse_location("abfss://c@acct.dfs.core.windows.net/t"))


@pytest.mark.parametrize(
    "location",
    [
        "s3://b/t/../u",
        "s3://b/t/..",
        "s3://b/../t",
        "s3://b/t/./u",
        "s3://b/t//u",
        "s3://b/t/%2e%2E/u",
        "s3://b/t/%2e",
        "s3://b/t\n/u",
        "s3://b/t\x00",
        "s3:///t",
        "s3:/b/t",
        "s3://b//t",
        "abfss:///t",
        "abfss://c@acct.evil.net/t",
        "abfss://c@acct.dfs.core.chinacloudapi.cn/t",
        "abfss://@acct.dfs.core.windows.net/t",
        "abfss://c@/t",
        "abfss://c@x@acct.dfs.core.windows.net/t",
    ],
)
def test_a_location_with_steps_upwards_or_without_a_bucket_is_refused(location: str) -> None:
    with pytest.raises(SharingError) as refused:
        parse_directory(location, "acct")
    assert (refused.value.status, refused.value.code) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize("location", ["/data/t", "file:///data/t", "hdfs://h/t", "https://h/t", "C:/t", "t", ""])
def test_there_are_no_credentials_for_disks_and_other_schemes(location: str) -> None:
    with pytest.raises(SharingError, match="S3, Azure and GCS") as refused:
        parse_directory(location)
    assert (refused.value.status, refused.value.code) == (400, "UNSUPPORTED_OPERATION")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("S3N://b/t//u/", "s3://b/t//u"),
        ("gcs://b", "gs://b"),
        ("adl://c/t", "az://c/t"),
        ("wasb://c@ACCT.blob.core.windows.net/t", "abfss://c@acct.dfs.core.windows.net/t"),
    ],
)
def test_a_location_is_written_as_storage_opens_it(text: str, canonical: str) -> None:
    assert str(parse_location(text)) == canonical


@pytest.mark.parametrize("path", ["/data/x", "x", "C:/x", "/data/a://b", "s3", "s3:x", ""])
def test_paths_on_disks_are_not_urls(path: str) -> None:
    assert (is_url(path), cloud_of(path), store_root(path), respelled(path)) == (False, None, "", path)


def test_a_path_keeps_all_but_its_scheme() -> None:
    assert respelled("S3A://b/x%20Y") == "s3://b/x%20Y"
    assert respelled("delta-sharing:///t/id") == "delta-sharing:///t/id"
    assert store_root("s3a://b/x") == "s3a://b"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:/a%20b", "/a b"),
        ("FILE://localhost/x", "/x"),
        ("file:///x%FF", "/x%FF"),
        ("file://host//x", "/host//x"),
        ("file:////x", "/x"),
        ("file:x", None),
        ("/x", None),
    ],
)
def test_urls_of_files_become_paths(url: str, path: str | None) -> None:
    assert file_path(url) == path
