"""The options of a read: whatever the case of their names, and with one clear message for what makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from lakeport import tables
from lakeport.frame import Changes, Frame
from lakeport.spark.options import ReadOptions
from tests.client.shares import sharing_tables

PROFILE = {"endpoint": "https://host/api", "bearerToken": "a secret"}


def path_options(**options: str) -> ReadOptions:
    return ReadOptions.parse({"path": "/data/t", **options}, sharing=False)


def shared_options(**options: str) -> ReadOptions:
    return ReadOptions.parse({"path": "p.share#a.b.c", **options}, sharing=True)


def test_names_have_no_case_and_values_are_parsed() -> None:
    parsed = shared_options(
        VERSIONASOF="7", MaxFilesPerTrigger="3", maxbytespertrigger="10m", responseformat="Parquet", CallerOrg="us"
    )
    assert (parsed.path, parsed.version_as_of, parsed.max_files_per_trigger) == ("p.share#a.b.c", 7, 3)
    assert (parsed.max_bytes_per_trigger, parsed.response_format, parsed.caller_org) == (10 << 20, "parquet", "us")
    feed = path_options(readChangeData="TRUE", startingVersion="1", endingTimestamp="2026-01-01")
    assert (feed.change_feed, feed.starting_version, feed.ending_timestamp) == (True, 1, "2026-01-01")
    assert path_options(startingVersion="Latest").starting_version == "latest"
    assert path_options(columns=" id , s.x ").columns == ("id", "s.x")
    assert [path_options().push_filters, path_options(pushFilters="true").push_filters] == [False, True]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("2b", 2), ("3k", 3 << 10), ("4KB", 4 << 10), ("5m", 5 << 20), ("1g", 1 << 30), ("2 tb", 2 << 40)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert path_options(maxBytesPerTrigger=text).max_bytes_per_trigger == size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"versionsAsOf": "1"}, "unknown option 'versionsAsOf': did you mean versionAsOf"),
        ({"shape": "round"}, "unknown option 'shape': the options are path, columns"),
        ({"bearerToken": "x"}, "unknown option 'bearerToken'"),
        ({"versionAsOf": "-1"}, "versionAsOf must be a number, 0 or more, not '-1'"),
        ({"versionAsOf": "1.5"}, "versionAsOf must be a number"),
        ({"versionAsOf": ""}, "versionAsOf must be a number"),
        ({"maxFilesPerTrigger": "0"}, "maxFilesPerTrigger must be a number, 1 or more"),
        ({"maxBytesPerTrigger": "1x"}, "maxBytesPerTrigger must be a size such as 10g"),
        ({"maxBytesPerTrigger": "mb"}, "maxBytesPerTrigger must be a size"),
        ({"readChangeFeed": "yes"}, "readChangeFeed must be true or false, not 'yes'"),
        ({"columns": " , "}, "a list of columns"),
        ({"versionAsOf": "1", "timestampAsOf": "2026-01-01"}, "versionAsOf or timestampAsOf, not both"),
        ({"startingVersion": "1", "startingTimestamp": "x"}, "startingVersion or startingTimestamp, not both"),
        ({"endingVersion": "1", "endingTimestamp": "x"}, "endingVersion or endingTimestamp, not both"),
        ({"readChangeFeed": "true", "versionAsOf": "1"}, "pass startingVersion, not versionAsOf"),
        ({"path": ""}, "no table was given"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        path_options(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"responseFormat": "csv"}, "responseFormat must be parquet or delta, not 'csv'"),
        ({"queryTableVersionIntervalSeconds": "9"}, "must be 10 or more"),
        ({"path": "orders"}, r"'orders' is not a shared table: write profile#share\.schema\.table"),
    ],
)
def test_what_makes_no_sense_for_a_shared_table_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shared_options(**options)


def test_a_profile_may_be_given_by_options_and_is_never_shown() -> None:
    parsed = shared_options(path="a.b.c", **PROFILE)
    assert parsed.profile == {"shareCredentialsVersion": "1", **PROFILE}
    assert "a secret" not in repr(parsed) + pretty_repr(parsed)
    stored = path_options(**{"storage.aws_secret_access_key": "hidden", "storage.region": "eu"})
    assert stored.storage_options == {"aws_secret_access_key": "hidden", "region": "eu"}
    assert "hidden" not in repr(stored) + pretty_repr(stored)


def test_a_batch_is_rows_or_changes(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2], "day": ["a", "b"]}, properties={"delta.enableChangeDataFeed": "true"})
    tables.append(path, {"id": [3], "day": ["c"]})

    def batch(**options: str) -> Frame | Changes:
        return path_options(path=path, **options).open_batch()

    assert batch().count() == 3
    assert batch(versionAsOf="0", columns="day").to_arrow().to_pylist() == [{"day": "a"}, {"day": "b"}]
    changes = batch(readChangeFeed="true", startingVersion="1")
    assert changes.to_arrow().column("id").to_pylist() == [3]
    narrow = batch(readChangeFeed="true", startingVersion="1", columns="id")
    assert narrow.schema.names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    with pytest.raises(ValueError, match="readChangeFeed needs startingVersion or startingTimestamp"):
        batch(readChangeFeed="true")
    with pytest.raises(ValueError, match="'latest' is for streams"):
        batch(readChangeFeed="true", startingVersion="latest")
    with pytest.raises(ValueError, match="for one version, pass versionAsOf"):
        batch(startingVersion="1")


def test_a_shared_table_is_opened_with_a_profile_or_with_options(tmp_path: Path) -> None:
    with sharing_tables(tmp_path) as shared:
        by_file = shared_options(path=shared.target("sales.eu.orders"), versionAsOf="0")
        assert by_file.open_batch().count() == 3
        inline = {"endpoint": shared.server.endpoint, "bearerToken": "token-of-ann", "shareCredentialsVersion": "1"}
        for response_format in ("delta", "parquet"):
            given = shared_options(path="sales.eu.orders", responseFormat=response_format, **inline)
            assert given.open_batch().count() == 4


def test_the_version_of_an_inline_profile_need_not_be_told() -> None:
    assert shared_options(path="a.b.c", endpoint="https://x", bearerToken="t").profile["shareCredentialsVersion"] == "1"
    basic = shared_options(path="a.b.c", endpoint="https://x", type="basic", username="ann", password="p")
    assert basic.profile["shareCredentialsVersion"] == "2"
    assert shared_options(path="config.share#a.b.c").profile == {}


def test_a_profile_is_given_once() -> None:
    with pytest.raises(ValueError, match="pass only one of them"):
        shared_options(path="config.share#a.b.c", bearerToken="t")


def test_columns_are_a_list_in_which_backticks_keep_commas() -> None:
    assert path_options(columns="id, s.a,`a,b`").columns == ("id", "s.a", "`a,b`")
    with pytest.raises(ValueError, match="list of columns"):
        path_options(columns=" ")
