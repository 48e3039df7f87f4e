"""The header by which a client says what it can read, and the last line that it may ask for."""

from __future__ import annotations

import pytest
import requests

from tests.conformance.roles import READABLE_AS_PARQUET
from tests.conformance.serving import DAMAGED_FILES
from tests.conformance.target import CAPABILITIES, DELTA, END, FEATURES, PARQUET, SharedTable, Target, assert_refused


@pytest.mark.section("Delta Sharing Capabilities Header")
@pytest.mark.parametrize(
    "header",
    [
        "responseformat=delta;readerfeatures=deletionvectors,columnmapping",
        "ResponseFormat=DELTA;ReaderFeatures=DeletionVectors,COLUMNMAPPING",
        "responseFormat = delta ; readerFeatures = deletionVectors , columnMapping ;",
        "someday=yes;readerfeatures=deletionvectors,columnmapping,someday;responseformat=delta",
    ],
)
def test_keys_and_values_have_no_case_and_unknown_ones_do_not_matter(vectors: SharedTable, header: str) -> None:
    for answer in (vectors.metadata(header), vectors.query(header), vectors.changes(header, startingVersion=0)):
        assert answer.format == "delta"
        assert "deltaProtocol" in answer.protocol


@pytest.mark.section("responseFormat")
@pytest.mark.parametrize(
    "header", [None, "", "readerfeatures=deletionvectors", PARQUET, "includeendstreamaction=false"]
)
@pytest.mark.parametrize("role", READABLE_AS_PARQUET)
def test_without_a_format_the_answer_is_in_parquet_format(target: Target, role: str, header: str | None) -> None:
    for answer in (target.table(role).metadata(header), target.table(role).query(header)):
        assert answer.format == "parquet"
        assert set(answer.protocol) == {"minReaderVersion"}


@pytest.mark.section("responseFormat")
@pytest.mark.parametrize("role", READABLE_AS_PARQUET)
def test_the_only_format_that_is_asked_for_is_the_one_of_the_answer(target: Target, role: str) -> None:
    for header, name in ((PARQUET, "parquet"), (DELTA, "delta")):
        for answer in (target.table(role).metadata(header), target.table(role).query(header)):
            assert answer.format == name


@pytest.mark.section("responseFormat")
@pytest.mark.parametrize("formats", ["parquet,delta", "delta,parquet", "Delta,Parquet"])
def test_of_two_formats_the_table_decides(target: Target, formats: str) -> None:
    header = f"responseformat={formats};{FEATURES}"
    for role in ("vectors", "mapped"):
        table = target.table(role)
        for answer in (table.metadata(header), table.query(header), table.changes(header, startingVersion=2)):
            assert answer.format == "delta"
    for role in ("plain", "feed", "nested"):
        assert target.table(role).metadata(header).format == target.table(role).query(header).format


@pytest.mark.section("responseFormat")
def test_of_two_formats_a_table_without_features_is_in_parquet_format(own: Target) -> None:
    header = "responseformat=delta,parquet"
    assert own.table("plain").query(header).format == "parquet"
    assert own.table("feed").changes(header, startingVersion=0).format == "parquet"
    assert own.table("vectors_unused").query(header).format == "parquet"


@pytest.mark.section("responseFormat", "Errors")
@pytest.mark.parametrize(("role", "feature"), [("vectors", "deletionVectors"), ("mapped", "columnMapping")])
def test_what_the_parquet_format_cannot_tell_is_refused_by_name(target: Target, role: str, feature: str) -> None:
    table = target.table(role)
    for header in (None, PARQUET):
        for answer in (
            table.metadata(header),
            table.query(header),
            table.query(header, startingVersion=2),
            table.changes(header, startingVersion=2),
        ):
            assert_refused(answer, 400, "UNSUPPORTED_OPERATION", feature)


@pytest.mark.section("readerFeatures", "Errors")
@pytest.mark.parametrize(("role", "feature"), [("vectors", "deletionVectors"), ("mapped", "columnMapping")])
def test_a_feature_that_the_client_did_not_declare_is_refused_by_name(target: Target, role: str, feature: str) -> None:
    table = target.table(role)
    for header in ("responseformat=delta", "responseformat=delta,parquet;readerfeatures=typewidening"):
        for answer in (
            table.metadata(header),
            table.query(header),
            table.query(header, startingVersion=2),
            table.changes(header, startingVersion=2),
        ):
            assert_refused(answer, 400, "UNSUPPORTED_OPERATION", feature)


@pytest.mark.section("readerFeatures")
def test_features_do_not_matter_to_tables_without_them(plain: SharedTable) -> None:
    assert len(plain.query("responseformat=delta").files) == len(plain.query(DELTA).files) == 9


@pytest.mark.section("includeEndStreamAction")
@pytest.mark.parametrize("header", [PARQUET, DELTA, None])
def test_without_being_asked_the_server_sends_no_end(feed: SharedTable, header: str | None) -> None:
    for answer in (feed.query(header), feed.query(header, startingVersion=0), feed.changes(header, startingVersion=0)):
        assert answer.end is None
        assert "includeendstreamaction" not in answer.capabilities


@pytest.mark.section("includeEndStreamAction", "EndStreamAction")
@pytest.mark.parametrize("header", [PARQUET, DELTA])
def test_the_end_is_there_if_the_header_says_so(feed: SharedTable, header: str) -> None:
    for answer in (
        feed.query(header + END),
        feed.query(header + END, version=1),
        feed.query(header + END, startingVersion=0),
        feed.changes(header + END, startingVersion=0),
    ):
        assert (answer.end is not None) == (answer.capabilities.get("includeendstreamaction") == "true")
        assert [line for line in answer.lines if "endStreamAction" in line] == [answer.lines[-1]]
        assert answer.end is not None
        assert not answer.end.get("nextPageToken")
        assert "errorMessage" not in answer.end


@pytest.mark.section("includeEndStreamAction")
def test_the_end_can_be_declined(plain: SharedTable) -> None:
    answer = plain.query("responseformat=delta;includeEndStreamAction=FALSE")
    assert answer.end is None


@pytest.mark.section("EndStreamAction")
@pytest.mark.parametrize("header", [PARQUET, DELTA])
def test_the_end_tells_when_the_first_url_expires(plain: SharedTable, header: str) -> None:
    answer = plain.query(header + END)
    assert answer.end is not None
    expiring = [file.body["expirationTimestamp"] for file in answer.files if "expirationTimestamp" in file.body]
    plain.target.requires("URLs that tell when they expire", present=bool(expiring))
    assert answer.end["minUrlExpirationTimestamp"] == min(expiring)


@pytest.mark.section("EndStreamAction")
def test_an_answer_without_files_has_an_end_too(target: Target) -> None:
    answer = target.table("empty").query(DELTA + END)
    assert answer.files == []
    assert answer.end is not None


@pytest.mark.section("EndStreamAction", "Errors")
@pytest.mark.parametrize("header", [PARQUET, DELTA])
def test_an_error_after_the_answer_has_begun_is_told_in_the_end(own: Target, header: str) -> None:
    damaged = own.table("damaged")
    for answer in (
        damaged.query(header + END, startingVersion=0),
        damaged.query(header, startingVersion=0, maxFiles=10_000),
        damaged.changes(header + END, startingVersion=0),
    ):
        assert len(answer.files) == DAMAGED_FILES
        assert answer.end is not None
        assert set(answer.end) == {"errorMessage", "httpStatusErrorCode"}
        assert damaged.truth() not in answer.end["errorMessage"]


@pytest.mark.section("EndStreamAction", "Errors")
@pytest.mark.parametrize("header", [PARQUET, DELTA])
def test_a_client_that_knows_no_end_notices_an_error_by_the_connection(own: Target, header: str) -> None:
    damaged = own.table("damaged")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        damaged.query(header, startingVersion=0)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        damaged.changes(header, startingVersion=0)


@pytest.mark.section("What clients need")
def test_the_format_of_the_answer_is_told_in_lower_case_and_alone(plain: SharedTable, vectors: SharedTable) -> None:
    for answer, name in ((plain.query(PARQUET), "parquet"), (vectors.query(DELTA), "delta")):
        header = answer.response.headers[CAPABILITIES]
        assert header == header.lower()
        assert f"responseformat={name}" in header.split(";")
        assert ("delta" in header) == (name == "delta")
