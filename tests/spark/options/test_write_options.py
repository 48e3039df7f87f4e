"""Options of a write: what they mean, and which of them are refused before anything runs."""

import pytest

from lakeport.spark.options import WriteOptions


def parse(**options: str) -> WriteOptions:
    return WriteOptions.parse({"path": "t", **options}, overwrite=False)


def test_names_of_options_and_of_table_properties_are_found_in_any_case() -> None:
    options = {
        "PATH": "t",
        "mergeschema": "TRUE",
        "delta.enablechangedatafeed": "true",
        "delta.constraints.one": "a > 0",
    }
    parsed = WriteOptions.parse(options, overwrite=False)
    assert parsed.path == "t"
    assert parsed.merge_schema
    assert parsed.properties == {"delta.enableChangeDataFeed": "true", "delta.constraints.one": "a > 0"}


def test_columns_to_partition_by_are_a_list_in_which_backticks_keep_dots_and_commas() -> None:
    assert parse().partition_by is None
    assert parse(partitionBy="day, region").partition_by == ("day", "region")
    assert parse(partitionBy="`a.b`,`c,d`").partition_by == ("a.b", "c,d")
    assert parse(partitionBy="").partition_by == ()


def test_options_of_the_storage_are_not_shown() -> None:
    parsed = WriteOptions.parse({"path": "t", "storage.secret_access_key": "hidden"}, overwrite=False)
    assert parsed.storage_options == {"secret_access_key": "hidden"}
    assert "hidden" not in repr(parsed)


def test_work_of_an_application_is_a_name_and_a_version() -> None:
    assert parse().application is None
    assert parse(txnAppId="nightly", txnVersion="7").application == ("nightly", 7)
    assert (
        WriteOptions.parse({"path": "t", "txnAppId": "nightly"}, overwrite=False, stream=True).txn_app_id == "nightly"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mergeSchma": "true"}, "did you mean mergeSchema"),
        ({"userName": "x"}, "unknown option 'userName'"),
        ({"path": " "}, "no table was given"),
        ({"mergeSchema": "yes"}, "mergeSchema must be true or false"),
        ({"partitionBy": "a.b"}, "put dots in backticks"),
        ({"partitionOverwriteMode": "some"}, "dynamic or static"),
        ({"txnAppId": "a"}, "pass both"),
        ({"txnVersion": "1"}, "pass both"),
        ({"txnAppId": "", "txnVersion": "1"}, "txnAppId is empty"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "txnVersion must be a number"),
        ({"replaceWhere": "a > 1"}, "replaceWhere needs the mode overwrite"),
        ({"overwriteSchema": "true"}, "overwriteSchema needs the mode overwrite"),
        ({"partitionOverwriteMode": "dynamic"}, "needs the mode overwrite"),
    ],
)
def test_an_append_refuses_options_that_make_no_sense(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overwriteSchema": "true", "replaceWhere": "a > 1"}, "replaceWhere cannot be combined with overwriteSchema"),
        ({"overwriteSchema": "true", "mergeSchema": "true"}, "mergeSchema cannot be combined with overwriteSchema"),
        ({"overwriteSchema": "true", "partitionOverwriteMode": "dynamic"}, "cannot be combined with overwriteSchema"),
        ({"replaceWhere": "a > 1", "partitionOverwriteMode": "dynamic"}, "cannot be combined with replaceWhere"),
    ],
)
def test_an_overwrite_refuses_options_that_contradict_one_another(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WriteOptions.parse({"path": "t", **options}, overwrite=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"txnAppId": "a", "txnVersion": "1"}, "leave out txnVersion: a stream uses"),
        ({"replaceWhere": "a > 1"}, "replaces the whole table"),
        ({"partitionOverwriteMode": "dynamic"}, "replaces the whole table"),
    ],
)
def test_a_stream_refuses_options_of_batches(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WriteOptions.parse({"path": "t", **options}, overwrite=True, stream=True)


def test_a_shared_table_is_not_written() -> None:
    with pytest.raises(ValueError, match="names a shared table, which can only be read"):
        parse(path="config.share#sales.eu.orders")
