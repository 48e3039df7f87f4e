"""What bodies and parameters are read as, and how those that make no sense are refused."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import SharingError
from lakeport.sharing.models import ChangesRequest, CredentialsRequest, QueryRequest, QueryStatusRequest
from lakeport.sharing.requests import (
    decode_credentials_request,
    decode_query,
    decode_query_status,
    parse_changes_request,
)

DECODERS: list[Callable[[bytes], Any]] = [decode_query, decode_query_status, decode_credentials_request]
NOT_OBJECTS = [b"{", b"[]", b"null", b"3", b"x", b"{} {}", b"\xff\xfe", b'{"a":' + b"[" * 1_000_000]
NOT_OBJECTS += [b'{"a":' * 100_000 + b"1" + b"}" * 100_000]


def query(**body: Any) -> QueryRequest:
    return decode_query(json.dumps(body).encode())


@pytest.mark.parametrize("body", [b"", b"  \n", b"{}", b'{"unknown": {"a": [1]}}', b'{"version": null}'])
def test_an_empty_body_asks_for_everything(body: bytes) -> None:
    assert decode_query(body) == QueryRequest()
    assert decode_query_status(body) == QueryStatusRequest()
    assert decode_credentials_request(body) == CredentialsRequest()


def test_the_whole_body_is_read() -> None:
    assert query(
        predicateHints=["a = 1"], jsonPredicateHints="{}", limitHint=10, startingVersion=1, endingVersion=2, maxFiles=5,
        pageToken="p", includeHistoricalProtocol=True, idempotencyKey="k",
    ) == QueryRequest(
        predicate_hints=["a = 1"], json_predicate_hints="{}", limit_hint=10, starting_version=1, ending_version=2,
        max_files=5, page_token="p", include_historical_protocol=True, idempotency_key="k",
    )  # fmt: skip


def test_numbers_may_be_text() -> None:
    assert query(version="3", limitHint="10", maxFiles="7") == QueryRequest(version=3, limit_hint=10, max_files=7)


def test_the_idempotency_key_has_two_spellings() -> None:
    assert query(idempotency_key="spark").idempotency_key == "spark"
    assert query(idempotencyKey="k", idempotency_key="spark").idempotency_key == "k"


def test_empty_text_stands_for_none() -> None:
    assert query(pageToken="", refreshToken="", jsonPredicateHints="", includeRefreshToken=True) == QueryRequest(
        include_refresh_token=True
    )
    assert decode_credentials_request(b'{"location": ""}') == CredentialsRequest()


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("body", NOT_OBJECTS)
def test_what_is_no_json_object_is_malformed(decode: Callable[[bytes], Any], body: bytes) -> None:
    refused_with("MALFORMED_REQUEST", "the request body is", lambda: decode(body))


def test_text_that_is_not_utf_8_is_malformed() -> None:
    refused_with("MALFORMED_REQUEST", "utf-8", lambda: decode_query(b'{"timestamp": "\xff"}'))


WRONG_TYPES: dict[str, list[Any]] = {
    "version": ["three", "", "3.5", 3.5, True, [], {}, " 3"],
    "timestamp": [3, True, []],
    "predicateHints": ["a = 1", [1], [None], {}],
    "jsonPredicateHints": [{}, []],
    "includeRefreshToken": ["perhaps", 2, []],
    "idempotency_key": [5],
}


@pytest.mark.parametrize(("field", "value"), [(field, v) for field, values in WRONG_TYPES.items() for v in values])
def test_a_field_of_the_wrong_type_is_malformed_and_named(field: str, value: Any) -> None:
    refused_with("MALFORMED_REQUEST", f"$.{field}", lambda: query(**{field: value}))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"version": -1}, "version must be 0 or more"),
        ({"startingVersion": -1}, "startingVersion must be 0 or more"),
        ({"startingVersion": 1, "endingVersion": -1}, "endingVersion must be 0 or more"),
        ({"limitHint": -1}, "limitHint must be 0 or more"),
        ({"maxFiles": 0}, "maxFiles must be 1 or more"),
        ({"maxFiles": -5}, "maxFiles must be 1 or more"),
        ({"version": 2**63}, "version must be"),
        ({"version": "9" * 200}, "version must be"),
        ({"version": 1, "timestamp": "x"}, "only one of version, timestamp, startingVersion"),
        ({"version": 1, "startingVersion": 1}, "only one of version, timestamp, startingVersion"),
        ({"startingVersion": 3, "endingVersion": 2}, "startingVersion 3 is after endingVersion 2"),
        ({"version": 1, "includeRefreshToken": True}, "includeRefreshToken applies only to the latest version"),
        ({"timestamp": "x", "refreshToken": "t"}, "refreshToken applies only to the latest version"),
        ({"pageToken": "p", "includeRefreshToken": True}, "includeRefreshToken applies only to the first page"),
        ({"pageToken": "p", "refreshToken": "t"}, "refreshToken applies only to the first page"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(body: dict[str, Any], reason: str) -> None:
    refused_with("INVALID_PARAMETER_VALUE", reason, lambda: query(**body))


def test_the_first_page_of_the_latest_version_may_ask_for_a_refresh_token() -> None:
    assert query(includeRefreshToken=True, maxFiles=10).include_refresh_token
    assert query(version=1, includeRefreshToken=False).version == 1
    assert query(refreshToken="t", includeRefreshToken=True).refresh_token == "t"


def test_an_ending_version_alone_is_no_error() -> None:
    assert query(endingVersion=3).ending_version == 3


def test_the_status_of_a_query_takes_pages() -> None:
    assert decode_query_status(b'{"maxFiles": "3", "pageToken": "p"}') == QueryStatusRequest(
        max_files=3, page_token="p"
    )
    refused_with("INVALID_PARAMETER_VALUE", "maxFiles", lambda: decode_query_status(b'{"maxFiles": 0}'))


def test_credentials_are_for_a_location() -> None:
    assert decode_credentials_request(b'{"location": "s3://b/t"}') == CredentialsRequest(location="s3://b/t")
    refused_with("MALFORMED_REQUEST", "$.location", lambda: decode_credentials_request(b'{"location": 1}'))


def test_the_parameters_of_changes_are_read() -> None:
    parameters = {"startingVersion": "1", "endingVersion": "+3", "includeHistoricalMetadata": "True", "maxFiles": "9"}
    parameters |= {"includeHistoricalProtocol": "true", "pageToken": "p", "readChangeFeed": "true"}
    assert parse_changes_request(parameters) == ChangesRequest(
        starting_version=1,
        ending_version=3,
        include_historical_metadata=True,
        include_historical_protocol=True,
        max_files=9,
        page_token="p",
    )
    moments = {"startingTimestamp": "a", "endingTimestamp": "b", "includeHistoricalMetadata": "no", "pageToken": ""}
    assert parse_changes_request(moments) == ChangesRequest(starting_timestamp="a", ending_timestamp="b")


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, "changes need a start"),
        ({"endingVersion": "3"}, "changes need a start"),
        ({"startingVersion": "x"}, "startingVersion is not a valid number: 'x'"),
        ({"startingVersion": ""}, "startingVersion is not a valid number"),
        ({"startingVersion": "1.0"}, "startingVersion is not a valid number"),
        ({"startingVersion": "٣"}, "startingVersion is not a valid number"),
        ({"startingVersion": "9" * 5000}, "startingVersion is not a valid number"),
        ({"startingVersion": str(2**63)}, "startingVersion must be"),
        ({"startingVersion": "-1"}, "startingVersion must be 0 or more"),
        ({"startingVersion": "1", "endingVersion": "x"}, "endingVersion is not a valid number"),
        ({"startingVersion": "1", "startingTimestamp": "x"}, "only one of startingVersion, startingTimestamp"),
        ({"startingVersion": "1", "endingVersion": "1", "endingTimestamp": "x"}, "only one of endingVersion"),
        ({"startingVersion": "3", "endingVersion": "1"}, "startingVersion 3 is after endingVersion 1"),
        ({"startingVersion": "1", "maxFiles": "0"}, "maxFiles must be 1 or more"),
        ({"startingVersion": "1", "maxFiles": "many"}, "maxFiles is not a valid number"),
    ],
)
def test_changes_that_make_no_sense_are_refused(parameters: dict[str, str], reason: str) -> None:
    refused_with("INVALID_PARAMETER_VALUE", reason, lambda: parse_changes_request(parameters))


@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_body_is_more_than_refused(body: bytes) -> None:
    for decode in DECODERS:
        with suppress(SharingError):
            decode(body)


def refused_with(code: str, reason: str, ask: Callable[[], object]) -> None:
    with pytest.raises(SharingError) as refused:
        ask()
    assert (refused.value.status, refused.value.code) == (400, code)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 500
