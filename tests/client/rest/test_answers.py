"""The lines of an answer: all of them or an error, whatever is in them and wherever they break off."""

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from lakeport.client.http.answer import HttpAnswer
from lakeport.client.rest import answers
from lakeport.client.rest.answers import Page, Pending, TableAnswer, receive_page
from lakeport.errors import AuthenticationError, SharingError, UnavailableError
from lakeport.sharing.lines import EndStreamAction

PROTOCOL = {"protocol": {"minReaderVersion": 1}}
METADATA = {"metaData": {"id": "t", "format": {"provider": "parquet"}, "schemaString": "{}", "partitionColumns": []}}
FILE = {"file": {"url": "https://x/y?z", "id": "f", "partitionValues": {}, "size": 1}}
END = {"endStreamAction": {"minUrlExpirationTimestamp": 5}}
PROMISED = {"delta-sharing-capabilities": "responseformat=delta;includeendstreamaction=true"}


def body_of(*lines: Any, newline: bytes = b"\n") -> bytes:
    return b"".join(json.dumps(line).encode() + newline for line in lines)


def received(
    body: bytes, headers: Mapping[str, str] | None = None, *, length: int | None = None, told: bool = True
) -> Page | Pending:
    """What is made of a body; its length is told, rightly unless another one is given."""
    lines = {"delta-table-version": "7", **(headers or {})}
    if told:
        lines["content-length"] = str(len(body) if length is None else length)
    response = urllib3.HTTPResponse(io.BytesIO(body), lines, 200, preload_content=False, request_method="GET")
    return receive_page(HttpAnswer(response, "example.com"), "the table a.b.c")


def page(*lines: Any, **headers: str) -> Page:
    found = received(body_of(*lines), {name.replace("_", "-"): value for name, value in headers.items()})
    assert isinstance(found, Page)
    return found


def single(first: Page) -> TableAnswer:
    def no_more(token: str) -> Page:
        raise AssertionError(token)

    return TableAnswer(first, no_more)


def encoded(*lines: Any) -> list[bytes]:
    return [json.dumps(line).encode() for line in lines]


def test_an_answer_has_a_head_lines_and_an_end() -> None:
    with single(received_page(body_of(PROTOCOL, METADATA, FILE, FILE, END), PROMISED)) as answer:
        assert (answer.version, answer.response_format) == (7, "delta")
        assert [answer.protocol_line, answer.metadata_line] == encoded(PROTOCOL, METADATA)
        assert answer.end is None
        assert list(answer.lines()) == encoded(FILE, FILE)
        assert answer.end == EndStreamAction(min_url_expiration_timestamp=5)


def received_page(body: bytes, headers: Mapping[str, str] | None = None, **options: Any) -> Page:
    found = received(body, headers, **options)
    assert isinstance(found, Page)
    return found


def test_an_old_server_answers_in_parquet_without_a_header_and_without_an_end() -> None:
    answer = single(page(PROTOCOL, METADATA, FILE))
    assert answer.response_format == "parquet"
    assert list(answer.lines()) == encoded(FILE)
    assert answer.end is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("responseFormat=Delta", "delta"),
        ("responseformat=parquet", "parquet"),
        ("readerfeatures=deletionvectors", "parquet"),
        ("responseformat=delta;includeEndStreamAction=false", "delta"),
        ("", "parquet"),
    ],
)
def test_the_format_is_what_the_header_says(header: str, expected: str) -> None:
    assert page(PROTOCOL, METADATA, delta_sharing_capabilities=header).response_format == expected


def test_a_format_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(SharingError, match="format iceberg"):
        page(PROTOCOL, METADATA, delta_sharing_capabilities="responseformat=iceberg")


@pytest.mark.parametrize("version", ["", "-1", "x", "1.5", "1" * 30])
def test_an_answer_without_a_valid_version_is_refused(version: str) -> None:
    with pytest.raises(SharingError, match=r"example\.com.*a\.b\.c.*Delta-Table-Version"):
        page(PROTOCOL, METADATA, delta_table_version=version)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "it is empty"),
        (b"\r\n \n", "it is empty"),
        (b"<!DOCTYPE html>\n<html></html>", "it is a web page; check the endpoint in the profile"),
    ],
)
def test_an_answer_that_is_of_something_else_says_so(body: bytes, problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        received(body)


@pytest.mark.parametrize(
    "lines", [(PROTOCOL,), (METADATA, PROTOCOL), (PROTOCOL, FILE), ({"protocol": None}, METADATA), (FILE, METADATA)]
)
def test_an_answer_that_does_not_begin_with_its_head_is_refused(lines: tuple[Any, ...]) -> None:
    with pytest.raises(SharingError, match="protocol") as failed:
        page(*lines)
    assert (failed.value.status, failed.value.code) == (200, "INVALID_ANSWER")


def test_an_error_at_the_end_is_raised_with_its_status() -> None:
    end = {"endStreamAction": {"errorMessage": "the file store is gone: https://s/f?sig=1", "httpStatusErrorCode": 503}}
    with pytest.raises(SharingError, match="the file store is gone") as failed:
        page(PROTOCOL, METADATA, FILE, end)
    assert failed.value.status == 503
    assert "sig=1" not in str(failed.value)


def test_an_error_at_the_end_without_a_status_is_one_of_the_server() -> None:
    with pytest.raises(SharingError) as failed:
        page(PROTOCOL, METADATA, {"endStreamAction": {"errorMessage": ""}})
    assert failed.value.status == 500


def test_an_error_at_the_end_has_the_kind_of_its_status() -> None:
    with pytest.raises(AuthenticationError):
        page({"endStreamAction": {"errorMessage": "expired", "httpStatusErrorCode": 401}})


def test_an_end_that_was_promised_and_is_missing_is_an_error() -> None:
    with pytest.raises(SharingError, match="truncated"):
        received(body_of(PROTOCOL, METADATA, FILE), PROMISED)


def test_an_end_that_was_not_promised_is_read_too() -> None:
    answer = single(page(PROTOCOL, METADATA, {"endStreamAction": {"refreshToken": "r"}}))
    assert list(answer.lines()) == []
    assert answer.end == EndStreamAction(refresh_token="r")


@pytest.mark.parametrize("more", [(END, FILE, END), (END, END), (FILE, END, FILE)])
def test_lines_after_the_end_are_an_error(more: tuple[Any, ...]) -> None:
    with pytest.raises(SharingError, match="after its end"):
        list(single(page(PROTOCOL, METADATA, *more)).lines())


def test_a_line_that_is_not_json_is_named_by_its_number() -> None:
    body = body_of(PROTOCOL, METADATA, FILE) + b'{"file": oops}\n' + body_of(END)
    with single(received_page(body, PROMISED)) as answer, pytest.raises(SharingError, match="line 4 is not"):
        list(answer.lines())


@pytest.mark.parametrize("line", [b"[]", b"1", b'"x"', b"null", b'{"endStreamAction": 5}', b"<html>"])
def test_a_last_line_that_is_no_object_is_an_error(line: bytes) -> None:
    with pytest.raises(SharingError, match="last line"):
        received(body_of(PROTOCOL, METADATA) + line)


def test_a_body_without_a_length_and_without_an_end_may_not_be_whole() -> None:
    with pytest.raises(SharingError, match="neither a length nor an end"):
        received(body_of(PROTOCOL, METADATA, FILE), told=False)
    assert isinstance(received(body_of(PROTOCOL, METADATA, FILE, END), told=False), Page)


def test_numbers_may_come_as_text_and_empty_tokens_are_none() -> None:
    end = {"endStreamAction": {"minUrlExpirationTimestamp": "12", "nextPageToken": "", "refreshToken": None}}
    answer = single(page(PROTOCOL, METADATA, end))
    assert list(answer.lines()) == []
    assert answer.end == EndStreamAction(min_url_expiration_timestamp=12)


def test_a_query_that_is_not_ready_is_pending() -> None:
    assert received(body_of({"queryStatus": {"queryId": "q 1", "status": "pending"}})) == Pending(query_id="q 1")


def test_a_large_answer_waits_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_IN_MEMORY", 1000)
    wide = {"file": {"id": "x" * 200_000}}
    with single(page(PROTOCOL, METADATA, *[FILE] * 500, wide)) as answer:
        assert list(answer.lines()) == encoded(*[FILE] * 500, wide)


def test_a_large_answer_that_nobody_reads_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_IN_MEMORY", 1000)
    first = page(PROTOCOL, METADATA, *[FILE] * 500)
    with single(first) as answer:
        next(answer.lines())
    assert first.file.closed
    with pytest.raises(SharingError):
        received(body_of(PROTOCOL, METADATA, *[FILE] * 500), PROMISED)


# Pages.


def with_next(token: str, **more: Any) -> dict[str, Any]:
    return {"endStreamAction": {"nextPageToken": token, **more}}


def test_pages_are_followed_to_the_end() -> None:
    files = [{"file": {"id": str(number)}} for number in range(3)]
    pages = {
        "1": page(PROTOCOL, METADATA, files[1], with_next("2", minUrlExpirationTimestamp=3, refreshToken="late")),
        "2": page(PROTOCOL, METADATA, files[2], {"endStreamAction": {"minUrlExpirationTimestamp": 4}}),
    }
    first = page(PROTOCOL, METADATA, files[0], with_next("1", refreshToken="r", minUrlExpirationTimestamp=8))
    answer = TableAnswer(first, lambda token: pages.pop(token))
    assert list(answer.lines()) == encoded(*files)
    assert pages == {}
    assert answer.end == EndStreamAction(refresh_token="r", min_url_expiration_timestamp=3)


def test_pages_that_go_round_in_a_circle_are_an_error() -> None:
    answer = TableAnswer(
        page(PROTOCOL, METADATA, with_next("a")),
        lambda token: page(PROTOCOL, METADATA, with_next("b" if token == "a" else "a")),
    )
    with pytest.raises(SharingError, match="form a loop"):
        list(answer.lines())


@pytest.mark.parametrize(
    ("lines", "headers", "what"),
    [
        (({"protocol": {"minReaderVersion": 2}}, METADATA), {}, "protocol line"),
        ((PROTOCOL, {"metaData": {"id": "other"}}), {}, "metadata line"),
        ((PROTOCOL, METADATA), {"delta_table_version": "8"}, "version"),
        ((PROTOCOL, METADATA), {"delta_sharing_capabilities": "responseformat=delta"}, "response format"),
    ],
)
def test_pages_that_do_not_belong_together_are_an_error(
    lines: tuple[Any, ...], headers: dict[str, str], what: str
) -> None:
    answer = TableAnswer(page(PROTOCOL, METADATA, FILE, with_next("1")), lambda token: page(*lines, **headers))
    with pytest.raises(SharingError, match=f"{what} differs"):
        list(answer.lines())


# Whatever comes.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
OWN_WORDS = {"endStreamAction", "queryStatus", "protocol", "metaData"}
UNKNOWN = st.dictionaries(st.text(max_size=8).filter(lambda key: key not in OWN_WORDS), JSON, max_size=3)
LINE = st.builds(lambda more, known: {**more, **known}, UNKNOWN, st.sampled_from([{}, FILE, METADATA]))


@given(st.lists(LINE, max_size=5), UNKNOWN, UNKNOWN, st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n"]))
def test_lines_come_out_as_they_are_with_all_that_is_unknown(
    lines: list[dict[str, Any]], in_head: dict[str, Any], in_end: dict[str, Any], newline: bytes
) -> None:
    end = {"endStreamAction": {**in_end, "minUrlExpirationTimestamp": 5}, **in_end}
    body = body_of({**in_head, **PROTOCOL}, {**in_head, **METADATA}, *lines, end, newline=newline)
    answer = single(received_page(body, PROMISED))
    assert list(answer.lines()) == encoded(*lines)
    assert answer.end == EndStreamAction(min_url_expiration_timestamp=5)


WHOLE = body_of(PROTOCOL, METADATA, FILE, {"file": {"id": "ä\n", "stats": '{"a": [1]}'}}, FILE, END)


@pytest.mark.parametrize("how", ["its length is told", "no length is told", "a wrong length is told"])
def test_a_body_that_is_cut_anywhere_is_an_error_or_whole(how: str) -> None:
    expected = list(single(received_page(WHOLE, PROMISED)).lines())
    for cut in range(len(WHOLE)):
        told = {
            "its length is told": {"length": len(WHOLE)},
            "no length is told": {"told": False},
            "a wrong length is told": {},
        }[how]
        try:
            answer = single(received_page(WHOLE[:cut], PROMISED, **told))
        except SharingError as error:
            assert isinstance(error, UnavailableError) == (how == "its length is told")  # noqa: PT017
            continue
        assert how != "its length is told"
        assert list(answer.lines()) == expected
        assert cut >= len(WHOLE.rstrip())


def test_a_body_of_an_old_server_that_is_cut_within_a_line_is_an_error() -> None:
    whole = body_of(PROTOCOL, METADATA, FILE, FILE)
    ends = {end for end, byte in enumerate(whole, 1) if byte == ord("\n")} | {0}
    for cut in range(len(whole)):
        if cut in ends or cut + 1 in ends:
            continue
        with pytest.raises(SharingError):
            list(single(received_page(whole[:cut])).lines())


@given(st.binary(max_size=60), st.integers(0, len(WHOLE)))
def test_a_body_with_anything_in_it_gives_the_lines_or_an_error(noise: bytes, where: int) -> None:
    try:
        found = received(WHOLE[:where] + noise + WHOLE[where:], PROMISED)
        lines = list(single(found).lines()) if isinstance(found, Page) else []
    except SharingError:
        return
    assert all(isinstance(json.loads(line.decode("utf-8", "replace")), dict) for line in lines)
