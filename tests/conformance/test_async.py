"""Queries that take their time: the client gets an id and asks again."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.conformance.serving import OTHER_TOKEN
from tests.conformance.target import DELTA, PARQUET, Answer, SharedTable, Target, assert_refused

pytestmark = pytest.mark.section("Later: async queries")

ASYNC = ";asyncquery=true"


def pending(answer: Answer) -> str | None:
    """The id of a query that is not ready."""
    (first, *rest) = answer.lines
    if "queryStatus" not in first:
        return None
    assert rest == []
    assert first["queryStatus"]["status"] == "pending"
    assert answer.capabilities["asyncquery"] == "true"
    return str(first["queryStatus"]["queryId"])


def started(table: SharedTable, capabilities: str, **body: Any) -> str:
    query_id = pending(table.query(capabilities + ASYNC, **body))
    table.target.requires("queries that are answered later", present=query_id is not None)
    assert query_id is not None
    return query_id


def finished(table: SharedTable, capabilities: str, query_id: str, **body: Any) -> Answer:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        answer = table.request("POST", f"/queries/{query_id}", capabilities + ASYNC, json=body)
        if pending(answer) is None:
            return answer
        time.sleep(0.05)
    pytest.fail("the query has not ended")


@pytest.mark.parametrize("capabilities", [PARQUET, DELTA])
@pytest.mark.parametrize("body", [{}, {"version": 1}, {"startingVersion": 0}])
def test_the_answer_is_that_of_a_query(plain: SharedTable, capabilities: str, body: dict[str, Any]) -> None:
    query_id = started(plain, capabilities, **body)
    answer = finished(plain, capabilities, query_id)
    direct = plain.query(capabilities, **body)
    assert [f.body["id"] for f in answer.files] == [f.body["id"] for f in direct.files]
    assert (answer.version, answer.format, answer.lines[:2]) == (direct.version, direct.format, direct.lines[:2])


def test_only_who_asks_for_it_has_to_wait(plain: SharedTable) -> None:
    assert pending(plain.query(DELTA)) is None


def test_one_key_is_one_query(plain: SharedTable) -> None:
    """Sent again, it is the same query: pending under the same id, or answered."""
    query_id = started(plain, DELTA, idempotencyKey="a key")
    assert pending(plain.query(DELTA + ASYNC, idempotency_key="a key")) in (query_id, None)
    assert started(plain, DELTA, idempotencyKey="another key") != query_id


def test_the_answer_can_be_paged(plain: SharedTable) -> None:
    query_id = started(plain, DELTA)
    first = finished(plain, DELTA, query_id, maxFiles=4)
    assert first.end is not None
    rest = finished(plain, DELTA, query_id, maxFiles=100, pageToken=first.end["nextPageToken"])
    assert {f.body["id"] for f in first.files + rest.files} == {f.body["id"] for f in plain.query(DELTA).files}


@pytest.mark.section("Errors")
def test_an_id_that_there_is_not_is_404(plain: SharedTable, stream: SharedTable) -> None:
    query_id = started(plain, DELTA)
    for refused in (
        plain.request("POST", "/queries/nothing", DELTA + ASYNC, json={}),
        stream.request("POST", f"/queries/{query_id}", DELTA + ASYNC, json={}),
    ):
        assert_refused(refused, 404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.section("Errors")
def test_an_id_of_another_recipient_is_404(own: Target) -> None:
    plain = own.table("plain")
    path = f"{plain.path}/queries/{started(plain, DELTA)}"
    assert_refused(own.request("POST", path, token=OTHER_TOKEN, json={}), 404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.section("Errors")
def test_a_query_that_fails_is_an_error_of_http(plain: SharedTable) -> None:
    answer = plain.query(DELTA + ASYNC, version=99)
    if answer.response.status_code == 200:
        query_id = pending(answer)
        for _ in range(100):
            answer = plain.request("POST", f"/queries/{query_id}", DELTA + ASYNC, json={})
            if answer.response.status_code != 200:
                break
            time.sleep(0.05)
    assert_refused(answer, 400, "INVALID_PARAMETER_VALUE")
