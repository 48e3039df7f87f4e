"""Which locations are the same, and which lie in others."""

import pytest

from lakeport.errors import SharingError
from lakeport.server.credentials.places import Cloud, Place, parse_place


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
        ("abfss://c@acct.z7.dfs.storage.azure.net/t", "abfss://c@acct.z7.blob.storage.azure.net/t"),
    ],
)
def test_spellings_of_one_directory_are_equal(one: str, other: str) -> None:
    assert parse_place(one, "acct") == parse_place(other, "acct")


def test_the_parts_of_a_location_are_told() -> None:
    assert parse_place("gs://b/data/t 1/ü%20=?#") == Place(Cloud.GCS, "b", ("data", "t 1", "ü%20=?#"))
    assert parse_place("gs://b/data/t").prefix == "data/t/"
    assert parse_place("gs://b").prefix == parse_place("gs://b/").prefix == ""
    azure = parse_place("abfss://c@acct.dfs.core.windows.net/t")
    assert (azure.bucket, azure.account, azure.domain) == ("c", "acct", "blob.core.windows.net")


@pytest.mark.parametrize(
    "inner", ["s3://b/data/t1", "s3a://b/data/t1/", "s3://b/data/t1/part=1", "s3://b/data/t1/t1/x"]
)
def test_a_directory_is_within_itself_and_its_parents(inner: str) -> None:
    assert parse_place(inner).is_within(parse_place("s3://b/data/t1"))
    assert parse_place(inner).is_within(parse_place("s3://b"))


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
    assert not parse_place(outer).is_within(parse_place("s3://b/data/t1"))


@pytest.mark.parametrize(
    "outer",
    [
        "abfss://c@other.dfs.core.windows.net/t",
        "abfss://d@acct.dfs.core.windows.net/t",
        "abfss://c@acct.dfs.core.chinacloudapi.cn/t",
        "abfss://c@acct.evil.net/t",
    ],
)
def test_another_account_container_or_cloud_of_azure_is_another_place(outer: str) -> None:
    assert not parse_place(outer).is_within(parse_place("abfss://c@acct.dfs.core.windows.net/t"))


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
        "abfss:///t",
        "abfss://@acct.dfs.core.windows.net/t",
        "abfss://c@/t",
        "abfss://c@x@acct.dfs.core.windows.net/t",
    ],
)
def test_a_location_with_steps_upwards_or_without_a_bucket_is_refused(location: str) -> None:
    with pytest.raises(SharingError) as refused:
        parse_place(location, "acct")
    assert (refused.value.status, refused.value.code) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize(
    "location", ["/data/t", "file:///data/t", "hdfs://h/t", "https://h/t", "C:/t", "t", "", "s3:/b/t"]
)
def test_there_are_no_credentials_for_disks_and_other_schemes(location: str) -> None:
    with pytest.raises(SharingError, match="S3, Azure and GCS") as refused:
        parse_place(location)
    assert (refused.value.status, refused.value.code) == (400, "UNSUPPORTED_OPERATION")
