"""Answers in pages, and answers that are asked for again."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from lakeport import tables
from tests.conformance.roles import numbers
from tests.conformance.serving import OTHER_TOKEN
from tests.conformance.target import DELTA, END, PARQUET, Answer, SharedTable, Target, assert_refused, both_formats

NO_ID = '{"op": "isNull", "children": [{"op": "column", "name": "id", "valueType": "long"}]}'
SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "snapshot": ("plain", {}),
    "version": ("stream", {"version": 4}),
    "stream": ("stream", {"startingVersion": 0}),
    "window": ("stream", {"startingVersion": 1, "endingVersion": 5}),
    "predicate": ("plain", {"predicateHints": ["id > 6"]}),
    "limit": ("plain", {"limitHint": 9}),
    "vectors": ("vectors", {}),
    "vectors since": ("vectors", {"startingVersion": 0}),
    "mapped since": ("mapped", {"startingVersion": 0}),
    "feed": ("feed", {"changes": True, "startingVersion": 0}),
    "feed of vectors": ("vectors", {"changes": True, "startingVersion": 0}),
    "feed with metadata": ("feed", {"changes": True, "startingVersion": 0, "includeHistoricalMetadata": "true"}),
    "empty": ("empty", {}),
}  # fmt: skip

pytestmark = pytest.mark.section("Later: pages of files")


def ask(table: SharedTable, capabilities: str, wanted: dict[str, Any], **more: Any) -> Answer:
    parameters = {name: value for name, value in wanted.items() if name != "changes"} | more
    return (table.changes if wanted.get("changes") else table.query)(capabilities, **parameters)


def told(answer: Answer) -> list[tuple[Any, ...]]:
    """Files and metadata, without what is new in every answer."""
    found: list[tuple[Any, ...]] = []
    for line in answer.later_lines:
        if "metaData" in line:
            found.append(("metadata", line["metaData"]["version"]))
        else:
            body = next(iter(line.values()))
            action = next(iter(body["deltaSingleAction"])) if "deltaSingleAction" in body else next(iter(line))
            found.append((action, body["id"], body.get("version"), body.get("deletionVectorFileId")))
    return found


def pages(table: SharedTable, capabilities: str, wanted: dict[str, Any], size: int) -> list[Answer]:
    found = [ask(table, capabilities, wanted, maxFiles=size)]
    while (end := found[-1].end) is not None and "nextPageToken" in end:
        found.append(ask(table, capabilities, wanted, maxFiles=size, pageToken=end["nextPageToken"]))
        assert len(found) < 100
    return found


@pytest.mark.parametrize("source", list(SOURCES))
@pytest.mark.parametrize("size", [1, 2, 3, 100])
@both_formats
def test_pages_make_up_the_whole(target: Target, source: str, size: int, capabilities: str) -> None:
    role, wanted = SOURCES[source]
    if capabilities == PARQUET and role in ("vectors", "mapped"):
        return
    table = target.table(role)
    whole = ask(table, capabilities, wanted)
    found = pages(table, capabilities, wanted, size)
    lines = [line for page in found for line in told(page)]
    if "limitHint" in wanted:  # which files are enough depends on their order
        assert len(lines) == len(told(whole))
    else:
        assert sorted(lines, key=repr) == sorted(told(whole), key=repr)
    assert len(set(lines)) == len(lines)
    assert all(len(page.files) <= size for page in found)
    assert len({page.response.text.split("\n")[0] for page in found}) == 1
    assert len({page.response.text.split("\n")[1] for page in found}) == 1
    assert {page.version for page in found} == {whole.version}
    if size == 100:
        assert len(found) == 1


def test_a_page_has_an_end_though_it_was_not_asked_for(plain: SharedTable) -> None:
    answer = plain.query(PARQUET, maxFiles=4)
    assert answer.end is not None
    assert answer.end["nextPageToken"]
    assert answer.capabilities["includeendstreamaction"] == "true"
    last = pages(plain, PARQUET, {}, 4)[-1]
    assert last.end is not None
    assert "nextPageToken" not in last.end


def test_the_number_of_files_may_change_from_page_to_page(plain: SharedTable) -> None:
    first = plain.query(DELTA, maxFiles=2)
    assert first.end is not None
    rest = plain.query(DELTA, maxFiles=100, pageToken=first.end["nextPageToken"])
    assert len(first.files) + len(rest.files) == 9
    assert not {file.body["id"] for file in first.files} & {file.body["id"] for file in rest.files}


def test_tokens_can_be_put_into_urls(plain: SharedTable, feed: SharedTable) -> None:
    for answer in (plain.query(maxFiles=1), feed.changes(startingVersion=0, maxFiles=1)):
        assert answer.end is not None
        assert set(answer.end["nextPageToken"]) <= set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"
        )


@pytest.mark.section("Errors")
def test_tokens_that_are_not_of_this_query_are_refused(
    plain: SharedTable, stream: SharedTable, feed: SharedTable
) -> None:
    end, of_stream = plain.query(maxFiles=1).end, stream.query(maxFiles=1, startingVersion=0).end
    assert end is not None
    assert of_stream is not None
    token = end["nextPageToken"]
    for refused in (
        plain.query(maxFiles=1, pageToken="bm90IGEgdG9rZW4"),
        plain.query(maxFiles=1, pageToken=token[:-2]),
        plain.query(maxFiles=1, pageToken=("B" if token[0] == "A" else "A") + token[1:]),
        plain.query(maxFiles=1, pageToken="ü"),
        plain.query(maxFiles=1, pageToken=token, predicateHints=["id > 3"]),
        plain.query(maxFiles=1, pageToken=token, jsonPredicateHints=NO_ID),
        plain.query(maxFiles=1, pageToken=token, limitHint=5),
        plain.query(maxFiles=1, pageToken=token, version=1),
        plain.query(maxFiles=1, pageToken=token, startingVersion=0),
        stream.query(maxFiles=1, pageToken=token),
        feed.changes(startingVersion=0, maxFiles=1, pageToken=token),
        stream.query(maxFiles=1, pageToken=of_stream["nextPageToken"]),
        plain.query(refreshToken=token),
    ):
        assert_refused(refused, 400, "INVALID_PARAMETER_VALUE", "token")


@pytest.mark.section("Errors")
def test_a_token_of_another_recipient_is_refused(own: Target) -> None:
    plain = own.table("plain")
    end = plain.query(maxFiles=1, includeRefreshToken=True).end
    assert end is not None
    for body in ({"pageToken": end["nextPageToken"]}, {"refreshToken": end["refreshToken"]}):
        refused = own.request("POST", f"{plain.path}/query", token=OTHER_TOKEN, json=body)
        assert_refused(refused, 400, "INVALID_PARAMETER_VALUE")


def test_pages_are_of_the_version_of_the_first(own: Target) -> None:
    table = own.table("growing")
    for wanted in ({}, {"startingVersion": 0}, {"changes": True, "startingVersion": 0}):
        tables.append(table.truth(), numbers(50, 1))
        whole = ask(table, DELTA, wanted)
        first = ask(table, DELTA, wanted, maxFiles=1)
        tables.append(table.truth(), numbers(90, 1))
        assert first.end is not None
        rest = ask(table, DELTA, wanted, maxFiles=100, pageToken=first.end["nextPageToken"])
        assert sorted(told(first) + told(rest), key=repr) == sorted(told(whole), key=repr)
        assert rest.version == first.version
        assert rest.response.text.split("\n")[1] == first.response.text.split("\n")[1]


@pytest.mark.section("Later: refresh tokens", "EndStreamAction")
@both_formats
def test_a_refresh_gives_the_same_files_of_the_same_version(own: Target, capabilities: str) -> None:
    table = own.table("growing")
    first = table.query(capabilities, includeRefreshToken=True)
    assert first.end is not None
    tables.append(table.truth(), numbers(70, 1))
    again = table.query(capabilities, refreshToken=first.end["refreshToken"], includeRefreshToken=True)
    assert again.version == first.version
    assert told(again) == told(first)
    assert again.end is not None
    third = table.query(capabilities, refreshToken=again.end["refreshToken"])
    assert told(third) == told(first)
    assert table.query(capabilities).version == first.version + 1


@pytest.mark.section("Later: refresh tokens")
def test_a_refresh_token_comes_only_if_it_is_asked_for(plain: SharedTable) -> None:
    for answer in (plain.query(DELTA + END), plain.query(DELTA + END, includeRefreshToken=False)):
        assert answer.end is not None
        assert "refreshToken" not in answer.end
    asked = plain.query(DELTA, includeRefreshToken=True)
    assert asked.end is not None
    assert asked.end["refreshToken"]
    assert asked.capabilities["includeendstreamaction"] == "true"


@pytest.mark.section("Later: refresh tokens", "Errors")
def test_refresh_tokens_that_are_not_of_this_table_are_refused(plain: SharedTable, stream: SharedTable) -> None:
    end = plain.query(DELTA, includeRefreshToken=True).end
    assert end is not None
    for refused in (
        plain.query(refreshToken="bm90IGEgdG9rZW4"),
        stream.query(refreshToken=end["refreshToken"]),
        plain.query(refreshToken=end["refreshToken"], version=1),
        plain.query(pageToken=end["refreshToken"]),
        plain.query(includeRefreshToken=True, version=1),
        plain.query(includeRefreshToken=True, startingVersion=1),
    ):
        assert_refused(refused, 400, "INVALID_PARAMETER_VALUE")


@pytest.mark.section("Later: fileidhash")
def test_the_ids_of_files_are_hashed_as_asked(plain: SharedTable, feed: SharedTable) -> None:
    def lengths(answer: Answer) -> set[int]:
        return {len(file.body["id"]) for file in answer.files}

    md5, sha256 = hashlib.md5().digest_size * 2, hashlib.sha256().digest_size * 2
    if plain.target.own:
        assert (lengths(plain.query(PARQUET)), lengths(plain.query(DELTA))) == ({md5}, {sha256})
    for capabilities in (PARQUET, DELTA):
        for asked, length in (("parquet", md5), ("Delta", sha256)):
            header = {"fileidhash": asked}
            for answer in (
                plain.request("POST", "/query", capabilities, json={}, headers=header),
                feed.request("GET", "/changes?startingVersion=0", capabilities, headers=header),
            ):
                assert lengths(answer) == {length}
                assert answer.response.headers["fileidhash"] == asked.lower()
            metadata = plain.request("GET", "/metadata", capabilities, headers=header)
            assert metadata.response.headers["fileidhash"] == asked.lower()
    assert "fileidhash" not in plain.query().response.headers
    same = [
        {f.body["id"] for f in plain.request("POST", "/query", c, json={}, headers={"fileidhash": "delta"}).files}
        for c in (PARQUET, DELTA)
    ]
    assert same[0] == same[1]


@pytest.mark.section("Later: fileidhash", "Errors")
def test_another_hash_is_refused(plain: SharedTable, feed: SharedTable) -> None:
    for method, table, action, name in (
        ("POST", plain, "/query", "crc32"),
        ("GET", plain, "/metadata", "md5"),
        ("GET", feed, "/changes?startingVersion=0", "md5"),
    ):
        refused = table.request(method, action, headers={"fileidhash": name})
        assert_refused(refused, 400, "INVALID_PARAMETER_VALUE")
