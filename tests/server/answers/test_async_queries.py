"""Queries that are answered later: pending at first, then whole, on any server with the same key."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from lakeport.server.answers.table_request import TableRequest
from lakeport.sharing.models import QueryRequest
from tests.server.running import Running, recipient, running, sharing
from tests.server.scripted import ScriptedTables

TABLE = "shares/a/schemas/b/tables/c"
ASYNC = {"delta-sharing-capabilities": "responseformat=parquet;asyncquery=true", "fileidhash": "parquet"}
PEOPLE = (recipient("ann", "token-of-ann"), recipient("bob", "token-of-bob"))
CONTENT = sharing({"a.b.c": "/nowhere", "a.b.other": "/nowhere"}, *PEOPLE)


def echo(table_request: TableRequest, request: QueryRequest) -> Iterator[bytes]:
    """One line that tells what was asked."""
    asked = [request.limit_hint, request.max_files, request.page_token, table_request.file_id_hash]
    yield json.dumps({"asked": asked}).encode() + b"\n"


class Counted(ScriptedTables):
    """Counts plannings; they wait for `ready`."""

    def __init__(self) -> None:
        super().__init__(echo, self._plan)
        self.planned = 0
        self.ready = threading.Event()

    def _plan(self, request: QueryRequest) -> None:
        self.planned += 1
        self.ready.wait(20)


def status_of(answer: requests.Response) -> dict[str, Any]:
    assert answer.status_code == 200
    status: dict[str, Any] = json.loads(answer.text)["queryStatus"]
    return status


def start(server: Running, body: dict[str, Any], **options: Any) -> requests.Response:
    return server.post(f"{TABLE}/query", body, headers=ASYNC, **options)


def test_a_query_that_is_quick_is_answered_at_once() -> None:
    with running(CONTENT, tables=ScriptedTables(echo)) as server:
        answer = start(server, {"limitHint": 5})
    assert json.loads(answer.text) == {"asked": [5, None, None, "parquet"]}


def test_a_query_that_takes_long_is_pending_and_polled_for() -> None:
    tables = Counted()
    with running(CONTENT, tables=tables, async_query_after_seconds=0.2) as server:
        pending = start(server, {"limitHint": 5})
        assert pending.headers["delta-sharing-capabilities"] == "asyncquery=true"
        assert pending.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
        assert pending.headers["fileidhash"] == "parquet"
        assert "Delta-Table-Version" in pending.headers
        status = status_of(pending)
        assert status["status"] == "pending"
        again = status_of(server.post(f"{TABLE}/queries/{status['queryId']}"))
        assert again == status
        tables.ready.set()
        answer = server.post(f"{TABLE}/queries/{status['queryId']}")
    assert json.loads(answer.text) == {"asked": [5, None, None, "parquet"]}
    assert answer.headers["fileidhash"] == "parquet"
    assert tables.planned == 1


def test_a_server_that_never_waits_is_always_pending_at_first() -> None:
    with running(CONTENT, tables=ScriptedTables(echo), async_query_after_seconds=0) as server:
        status = status_of(start(server, {}))
        for _ in range(2):  # an id is good more than once
            assert server.post(f"{TABLE}/queries/{status['queryId']}").json() == {
                "asked": [None, None, None, "parquet"]
            }


def test_a_client_that_does_not_say_so_is_never_kept_pending() -> None:
    with running(CONTENT, tables=ScriptedTables(echo), async_query_after_seconds=0) as server:
        assert "asked" in server.post(f"{TABLE}/query").text


def test_an_idempotency_key_gives_one_id_and_one_planning() -> None:
    tables = Counted()
    with running(CONTENT, tables=tables, async_query_after_seconds=0.1) as server:
        first, second = (status_of(start(server, {"idempotencyKey": "k", "limitHint": 1})) for _ in range(2))
        spark = status_of(start(server, {"idempotency_key": "k", "limitHint": 1}))
        other = status_of(start(server, {"idempotencyKey": "other", "limitHint": 1}))
        assert first["queryId"] == second["queryId"] == spark["queryId"] != other["queryId"]
        assert tables.planned == 2
        without = [status_of(start(server, {}))["queryId"] for _ in range(2)]
        assert without[0] != without[1]
        tables.ready.set()


def test_the_id_works_on_another_server_with_the_same_key() -> None:
    with (
        running(CONTENT, tables=ScriptedTables(echo), async_query_after_seconds=0) as one,
        running(CONTENT, tables=ScriptedTables(echo)) as other,
    ):
        query_id = status_of(start(one, {"limitHint": 9}))["queryId"]
        assert other.post(f"{TABLE}/queries/{query_id}").json() == {"asked": [9, None, None, "parquet"]}


def test_pages_of_a_query_are_asked_for_by_its_id() -> None:
    with running(CONTENT, tables=ScriptedTables(echo), async_query_after_seconds=0) as server:
        query_id = status_of(start(server, {"maxFiles": 3}))["queryId"]
        page = server.post(f"{TABLE}/queries/{query_id}", {"pageToken": "abc"})
        smaller = server.post(f"{TABLE}/queries/{query_id}", {"maxFiles": 2})
    assert page.json() == {"asked": [None, 3, "abc", "parquet"]}
    assert smaller.json() == {"asked": [None, 2, None, "parquet"]}


def test_a_failure_is_told_by_the_status_of_the_poll() -> None:
    def refuse(request: QueryRequest) -> None:
        time.sleep(0.3)
        raise ValueError("broken")

    with running(CONTENT, tables=ScriptedTables(echo, refuse), async_query_after_seconds=0.05) as server:
        query_id = status_of(start(server, {}))["queryId"]
        time.sleep(0.5)
        answer = server.post(f"{TABLE}/queries/{query_id}")
    assert (answer.status_code, answer.json()["errorCode"]) == (500, "INTERNAL_ERROR")


def test_a_recipient_has_only_so_many_queries_under_way() -> None:
    tables = Counted()
    with running(CONTENT, tables=tables, async_query_after_seconds=0) as server:
        pending = [status_of(start(server, {"limitHint": 1}))["queryId"] for _ in range(64)]
        refused = start(server, {"limitHint": 1})
        assert (refused.status_code, refused.json()["errorCode"]) == (429, "RATE_LIMIT_EXCEEDED")
        assert int(refused.headers["Retry-After"]) > 0
        assert status_of(start(server, {"limitHint": 1}, token="token-of-bob"))["status"] == "pending"
        tables.ready.set()
        for query_id in pending:
            assert "asked" in server.post(f"{TABLE}/queries/{query_id}").text
        assert status_of(start(server, {"limitHint": 1}))["status"] == "pending"


def test_a_query_too_large_for_an_id_is_answered_without_one() -> None:
    hints = {"predicateHints": ["x" * 50_000]}
    with running(CONTENT, tables=ScriptedTables(echo), async_query_after_seconds=0) as server:
        assert "asked" in start(server, hints).text


@pytest.mark.parametrize("wait", [0.0, 0.05])
def test_two_polls_at_once_both_get_the_whole_answer(wait: float) -> None:
    tables = Counted()
    with running(CONTENT, tables=tables, async_query_after_seconds=wait) as server:
        query_id = status_of(start(server, {"limitHint": 2}))["queryId"]
        answers: list[requests.Response] = []
        poll: Callable[[], None] = lambda: answers.append(  # noqa: E731
            requests.post(
                f"{server.endpoint}/{TABLE}/queries/{query_id}",
                headers={"Authorization": "Bearer token-of-ann"},
                timeout=30,
            )
        )
        tables.ready.set()
        threads = [threading.Thread(target=poll) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole = [answer.json() for answer in answers if "queryStatus" not in answer.text]
        assert len(answers) == 4
        assert whole
        assert all(answer == {"asked": [2, None, None, "parquet"]} for answer in whole)
