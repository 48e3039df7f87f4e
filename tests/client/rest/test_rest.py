"""Every API of the protocol: of our own server, and of servers that are old, busy, broken or wrong."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.client.http.pool import HttpPool
from lakeport.client.http.retrying import RetryOptions, Timing
from lakeport.client.rest.server import SharingServer
from lakeport.errors import AuthenticationError, PermissionDeniedError, SharingError, UnavailableError
from lakeport.kernel.definition import CATALOG_MANAGED, READER_FEATURES
from lakeport.server.answers.table_request import TableRequest
from lakeport.sharing.lines import EndStreamAction
from lakeport.sharing.models import ChangesRequest, QueryRequest
from lakeport.sharing.names import TableName
from lakeport.sharing.profile import BearerToken, Profile
from lakeport.testing.http import Asked, Close, Reset, Script, Steps, chunked, head, reply, scripted
from tests.client.timing import Sleeps, pool
from tests.server.running import TOKEN, Running, running, sharing
from tests.server.scripted import ScriptedTables

ORDERS = TableName("sales", "eu", "orders")
PATH = "/shares/sales/schemas/eu/tables/orders"
HEAD = b'{"protocol":{"minReaderVersion":1}}\n{"metaData":{"id":"t"}}\n'
VERSION = {"delta-table-version": "7"}
PROMISED = {**VERSION, "delta-sharing-capabilities": "responseformat=delta;includeendstreamaction=true"}


def client_of(url: str, http: HttpPool | None = None, token: str = TOKEN, **options: Any) -> SharingServer:
    profile = Profile(endpoint=url, credentials=BearerToken(token=token))
    return SharingServer(profile, http or pool(), **options)


def error(status: int, code: str = "SOME_CODE", message: str = "because") -> Steps:
    return reply(json.dumps({"errorCode": code, "message": message}).encode(), status)


def listed(*names: str, token: str | None = None) -> Steps:
    return reply(json.dumps({"items": [{"name": name} for name in names], "nextPageToken": token}).encode())


def parameters(asked: Asked) -> dict[str, list[str]]:
    return parse_qs(urlsplit(asked.target).query)


def file(number: int) -> bytes:
    return b'{"file":{"id":"%d"}}' % number


def end(**fields: Any) -> bytes:
    return json.dumps({"endStreamAction": fields}).encode()


# Our own server.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("tables")
    feed = {"delta.enableChangeDataFeed": "true"}
    tables.create(str(root / "orders"), pa.table({"id": [1, 2]}), properties=feed)
    for number in range(3, 9):
        tables.append(str(root / "orders"), pa.table({"id": [number]}))
    tables.create(str(root / "dv"), pa.table({"id": [1, 2]}), properties={"delta.enableDeletionVectors": "true"})
    names = {"sales.eu.orders": root / "orders", "Häuser%41 +.a&b.c?d": root / "dv"}
    many = {f"many.s{number % 3}.t{number}": root / "orders" for number in range(1200)}
    with running(sharing(names | many, history_shared=True)) as started:
        yield started


@pytest.fixture
def client(server: Running) -> Iterator[SharingServer]:
    with client_of(server.endpoint) as opened:
        yield opened


def test_shares_schemas_and_tables_are_listed(client: SharingServer) -> None:
    assert [share.name for share in client.shares()] == ["Häuser%41 +", "many", "sales"]
    assert client.share("SALES").id == "id-of-sales"
    assert [schema.name for schema in client.schemas("many")] == ["s0", "s1", "s2"]
    assert [(table.share, table.schema, table.name) for table in client.tables("sales", "eu")] == [
        ("sales", "eu", "orders")
    ]


def test_lists_are_read_to_the_last_page(client: SharingServer) -> None:
    found = {f"{table.schema}.{table.name}" for table in client.all_tables("many")}
    assert found == {f"s{number % 3}.t{number}" for number in range(1200)}


def test_names_with_any_letters_reach_the_server(client: SharingServer) -> None:
    name = TableName("Häuser%41 +", "a&b", "c?d")
    assert client.share(name.share).name == name.share
    assert client.version(name) == 0
    with client.metadata(name) as answer:
        assert answer.response_format == "delta"


def test_a_version_is_the_latest_or_the_first_since_a_moment(client: SharingServer) -> None:
    assert client.version(ORDERS) == 6
    assert client.version(ORDERS, "2020-01-01T00:00:00+01:00") == 0


def test_metadata_is_that_of_the_latest_version_or_of_another(client: SharingServer) -> None:
    with client.metadata(ORDERS) as answer:
        assert answer.version == 6
        assert "protocol" in json.loads(answer.protocol_line)
        assert json.loads(answer.metadata_line)["metaData"]
        assert list(answer.lines()) == []
    assert client.metadata(ORDERS, version=2).version == 2


def test_a_query_gives_the_files_of_a_version(client: SharingServer) -> None:
    answer = client.query(ORDERS, QueryRequest(version=3))
    assert answer.version == 3
    assert len(list(answer.lines())) == 4
    assert answer.end is not None
    assert answer.end.min_url_expiration_timestamp is not None


def test_a_query_in_pages_gives_the_same_files(client: SharingServer) -> None:
    whole = client.query(ORDERS, QueryRequest(include_refresh_token=True))
    paged = client.query(ORDERS, QueryRequest(include_refresh_token=True, max_files=2))
    ids = [{json.loads(line)["file"]["id"] for line in answer.lines()} for answer in (whole, paged)]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 7
    assert whole.end is not None
    assert paged.end is not None
    assert whole.end.refresh_token
    assert paged.end.refresh_token
    again = client.query(ORDERS, QueryRequest(refresh_token=paged.end.refresh_token))
    assert {json.loads(line)["file"]["id"] for line in again.lines()} == ids[0]


def test_a_range_of_versions_is_queried_in_pages_too(client: SharingServer) -> None:
    request = QueryRequest(starting_version=2, ending_version=5, max_files=1)
    assert len(list(client.query(ORDERS, request).lines())) == 4


def test_changes_are_read_in_pages_too(client: SharingServer) -> None:
    whole = client.changes(ORDERS, ChangesRequest(starting_version=1, ending_version=4))
    paged = client.changes(ORDERS, ChangesRequest(starting_version=1, ending_version=4, max_files=1))
    assert whole.version == paged.version == 1
    assert len(list(whole.lines())) == len(list(paged.lines())) == 4


def test_what_does_not_exist_is_told_with_what_to_do(client: SharingServer, server: Running) -> None:
    with pytest.raises(
        SharingError, match=r"sales\.eu\.nothing.*404 RESOURCE_DOES_NOT_EXIST.*check the name"
    ) as failed:
        client.version(TableName("sales", "eu", "nothing"))
    assert (failed.value.status, failed.value.code) == (404, "RESOURCE_DOES_NOT_EXIST")
    assert server.url.removeprefix("http://") in str(failed.value)
    for call in (client.share, client.schemas, client.all_tables):
        with pytest.raises(SharingError, match="the share nothing"):
            call("nothing")


def test_what_makes_no_sense_is_refused_by_the_server(client: SharingServer) -> None:
    with pytest.raises(SharingError, match="INVALID_PARAMETER_VALUE"):
        client.query(ORDERS, QueryRequest(version=1, timestamp="2020-01-01T00:00:00Z"))
    with pytest.raises(SharingError, match="timestamp"):
        client.version(ORDERS, "2020-01-1T00:00:00-08:00")
    with pytest.raises(SharingError, match="dir"):
        client.credentials(ORDERS)


def test_a_wrong_token_is_told_apart_and_never_shown(server: Running) -> None:
    client = client_of(server.endpoint, token="a-wrong-token")
    with client, pytest.raises(AuthenticationError, match="ask the provider for a new profile") as failed:
        client.shares()
    assert failed.value.status == 401
    assert "a-wrong-token" not in str(failed.value)


def test_an_error_in_the_middle_of_our_servers_answer_is_raised() -> None:
    def chunks(table_request: TableRequest, request: QueryRequest) -> Iterator[bytes]:
        yield HEAD
        yield file(1) + b"\n"
        raise SharingError("the disk is gone", status=503, code="TEMPORARILY_UNAVAILABLE")

    with (
        running(sharing({"sales.eu.orders": "/nowhere"}), tables=ScriptedTables(chunks)) as server,
        client_of(server.endpoint) as client,
        pytest.raises(SharingError, match="disk is gone") as failed,
    ):
        client.query(ORDERS, QueryRequest())
    assert failed.value.status == 503


def test_a_query_that_our_server_makes_in_the_background_is_waited_for() -> None:
    ready = threading.Event()

    def chunks(table_request: TableRequest, request: QueryRequest) -> Iterator[bytes]:
        yield HEAD + file(1) + b"\n"
        if table_request.capabilities.include_end_stream_action:
            yield end() + b"\n"

    timing = Timing(clock=lambda: 0.0, sleep=lambda seconds: ready.set())
    scripted_tables = ScriptedTables(chunks, lambda request: ready.wait(20))
    content = sharing({"sales.eu.orders": "/nowhere"})
    with (
        running(content, tables=scripted_tables, async_query_after_seconds=0.05) as server,
        client_of(server.endpoint, HttpPool(timing=timing)) as client,
    ):
        answer = client.query(ORDERS, QueryRequest())
        assert (answer.version, list(answer.lines())) == (7, [file(1)])
    assert ready.is_set()


# What is sent.


def test_what_is_sent_is_what_the_protocol_says() -> None:
    body = HEAD + end() + b"\n"
    with scripted(lambda asked: reply(body, headers=PROMISED)) as server, client_of(f"{server.url}/prefix") as client:
        client.metadata(ORDERS, timestamp="2020-01-01T00:00:00+01:00")
        client.query(ORDERS, QueryRequest(limit_hint=5, json_predicate_hints='{"op":"true"}'))
        client.changes(
            ORDERS, ChangesRequest(starting_version=0, ending_timestamp="2020", include_historical_metadata=True)
        )
        metadata, query, changes = server.asked
    features = ",".join(sorted(map(str.lower, READER_FEATURES - CATALOG_MANAGED)))
    capabilities = f"responseformat=delta,parquet;readerfeatures={features};includeendstreamaction=true"
    for asked, more in ((metadata, ""), (query, ";asyncquery=true"), (changes, "")):
        assert asked.headers["delta-sharing-capabilities"] == capabilities + more
        assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert (metadata.method, metadata.path) == ("GET", f"/prefix{PATH}/metadata")
    assert parameters(metadata) == {"timestamp": ["2020-01-01T00:00:00+01:00"]}
    assert (query.method, query.path) == ("POST", f"/prefix{PATH}/query")
    assert query.headers["content-type"] == "application/json; charset=utf-8"
    assert json.loads(query.body) == {"limitHint": 5, "jsonPredicateHints": '{"op":"true"}'}
    assert (changes.method, changes.path) == ("GET", f"/prefix{PATH}/changes")
    assert parameters(changes) == {
        "startingVersion": ["0"],
        "endingTimestamp": ["2020"],
        "includeHistoricalMetadata": ["true"],
    }


def test_a_query_of_everything_is_an_empty_object() -> None:
    with scripted(lambda asked: reply(HEAD, headers=VERSION)) as server, client_of(server.url) as client:
        client.query(ORDERS, QueryRequest())
        assert server.asked[0].body == b"{}"


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with client_of("http://127.0.0.1:1") as client, pytest.raises(ValueError, match="not a valid name"):
        client.version(TableName(name, "b", "c"))


# Old servers.


@pytest.mark.parametrize("refusal", [reply(b"", 404), reply(b"<html>", 405), reply(b'{"detail": "Not Found"}', 404)])
def test_an_old_server_is_asked_for_its_version_by_head(refusal: Steps) -> None:
    def script(asked: Asked) -> Steps:
        return [head(200, {**VERSION, "content-length": "0"})] if asked.method == "HEAD" else refusal

    with scripted(script) as server, client_of(server.url) as client:
        assert client.version(ORDERS) == 7
        assert client.version(ORDERS) == 7
        assert [(asked.method, asked.path) for asked in server.asked[:2]] == [
            ("GET", f"{PATH}/version"),
            ("HEAD", PATH),
        ]
        assert server.connections == 1


@pytest.mark.parametrize("status", [400, 403, 404, 405])
def test_a_refusal_in_the_words_of_the_protocol_is_no_sign_of_an_old_server(status: int) -> None:
    with scripted(lambda asked: error(status)) as server, client_of(server.url) as client:
        with pytest.raises(SharingError, match="SOME_CODE: because"):
            client.version(ORDERS)
        assert len(server.asked) == 1


def test_an_old_server_knows_no_moments() -> None:
    with scripted(lambda asked: reply(b"", 404)) as server, client_of(server.url) as client:
        with pytest.raises(SharingError, match="404"):
            client.version(ORDERS, "2020-01-01T00:00:00Z")
        assert len(server.asked) == 1


def test_an_answer_without_a_version_is_refused() -> None:
    with (
        scripted(lambda asked: reply(b"")) as server,
        client_of(server.url) as client,
        pytest.raises(SharingError, match="Delta-Table-Version"),
    ):
        client.version(ORDERS)


def test_an_old_server_lists_all_tables_by_its_schemas() -> None:
    def script(asked: Asked) -> Steps:
        if asked.path.endswith("/all-tables"):
            return reply(b"", 404)
        if asked.path.endswith("/schemas"):
            return reply(b'{"items": [{"name": "a", "share": "s"}, {"name": "b", "share": "s"}]}')
        schema = asked.path.split("/")[4]
        return reply(json.dumps({"items": [{"name": f"in-{schema}", "schema": schema, "share": "s"}]}).encode())

    with scripted(script) as server, client_of(server.url) as client:
        assert [table.name for table in client.all_tables("s")] == ["in-a", "in-b"]


def test_an_old_server_answers_in_parquet_without_headers() -> None:
    body = HEAD + file(1) + b"\n" + file(2)
    with scripted(lambda asked: reply(body, headers=VERSION)) as server, client_of(server.url) as client:
        answer = client.query(ORDERS, QueryRequest())
        assert answer.response_format == "parquet"
        assert (list(answer.lines()), answer.end) == ([file(1), file(2)], None)


# Lists.


def test_pages_of_a_list_are_followed_by_their_tokens() -> None:
    pages = [listed("a", "b", token="one & 1"), reply(b'{"nextPageToken": "two"}'), listed("c", token="")]
    with scripted(lambda asked: pages[asked.number]) as server, client_of(server.url) as client:
        assert [share.name for share in client.shares()] == ["a", "b", "c"]
        size = {"maxResults": ["500"]}
        expected = [size, size | {"pageToken": ["one & 1"]}, size | {"pageToken": ["two"]}]
        assert [parameters(asked) for asked in server.asked] == expected


def test_pages_of_a_list_that_go_round_in_a_circle_are_an_error() -> None:
    script: Script = lambda asked: listed("a", token="ab"[asked.number % 2])  # noqa: E731  # a script
    with scripted(script) as server, client_of(server.url) as client:
        with pytest.raises(SharingError, match="form a loop"):
            client.shares()
        assert len(server.asked) == 3


def test_fields_that_are_unknown_null_or_missing_do_no_harm() -> None:
    share = {"name": "a", "new": {"x": [1]}, "properties": None, "comment": None, "displayName": "A"}
    body = json.dumps({"items": [share], "more": 1, "nextPageToken": None}).encode()
    with scripted(lambda asked: reply(body)) as server, client_of(server.url) as client:
        assert [(found.name, found.display_name, found.properties) for found in client.shares()] == [("a", "A", {})]
    with scripted(lambda asked: reply(b'{"items": null}')) as server, client_of(server.url) as client:
        assert client.shares() == []


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"<html>", b'{"items": [{}]}', b'{"items": [', b'"\xff"'])
def test_a_list_that_is_not_one_is_refused(body: bytes) -> None:
    with scripted(lambda asked: reply(body)) as server, client_of(server.url) as client:
        with pytest.raises(SharingError, match=r"the shares.*not valid JSON of the protocol") as failed:
            client.shares()
        assert failed.value.code == "INVALID_ANSWER"
        assert len(server.asked) == 1


# Refusals.


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, SharingError, ""),
        (401, AuthenticationError, "ask the provider for a new profile"),
        (403, PermissionDeniedError, "ask the provider for access"),
        (404, SharingError, "check the name"),
        (501, SharingError, ""),
    ],
)
def test_a_refusal_says_who_what_why_and_what_to_do(status: int, kind: type[SharingError], advice: str) -> None:
    with scripted(lambda asked: error(status)) as server, client_of(server.url) as client:
        with pytest.raises(kind, match=rf"sales\.eu\.orders.*{status} SOME_CODE: because.*{advice}") as failed:
            client.query(ORDERS, QueryRequest())
        assert type(failed.value) is kind
        assert (failed.value.status, failed.value.code) == (status, "SOME_CODE")
        assert server.url.removeprefix("http://") in str(failed.value)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(b"<html>secret</html>", 400, {"content-type": "text/html"}), "400 HTTP_400"),
        (reply(b"no such thing", 400, {"content-type": "text/plain; charset=utf-8"}), "400 HTTP_400: no such thing"),
        (reply(b'{"message": "why"}', 400), "400 HTTP_400: why"),
        (reply(b'{"errorCode": "X"}', 400), "400 X"),
        (reply(b'{"errorCode": 5}', 400), "400 HTTP_400"),
        ([head(400, {"content-length": "100"}), b"cut", Close()], "400 HTTP_400"),
        (error(400, message="see https://s3/file?X-Amz-Signature=secret for more"), "see https://s3/file?… for more"),
        (error(400, message="x" * 5000), "x" * 1000 + "…"),
        (reply(b"", 200 + 4), "204 HTTP_204"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_refusal_in_other_words_is_told_as_far_as_it_goes(answer: Steps, said: str) -> None:
    with scripted(lambda asked: answer) as server, client_of(server.url) as client:
        with pytest.raises(SharingError) as failed:
            client.shares()
        assert said in str(failed.value)
        assert "secret" not in str(failed.value)


def test_a_server_that_stays_busy_is_named_with_the_table() -> None:
    answer = error(429, "RESOURCE_EXHAUSTED", "slow down")
    with (
        scripted(lambda asked: answer) as server,
        client_of(server.url, pool(retries=RetryOptions(retries=2))) as client,
    ):
        with pytest.raises(UnavailableError, match=r"sales\.eu\.orders.*429 RESOURCE_EXHAUSTED: slow down.*3 attempts"):
            client.version(ORDERS)
        assert len(server.asked) == 3


# Answers that break.


@pytest.mark.parametrize(
    "broken",
    [
        [*reply(HEAD + file(1) + b"\n", headers=VERSION, length=500), Close()],
        [*reply(HEAD + file(1) + b"\n", headers=VERSION, length=500), Reset()],
        [*chunked(HEAD, file(1) + b"\n", headers=VERSION, whole=False), Close()],
        [head(200, PROMISED), HEAD + file(1) + b"\n", Close()],
        [head(200, VERSION), HEAD + file(1)[:-3], Close()],
    ],
    ids=["too short", "reset", "no last chunk", "no promised end, no length", "half a line, no length"],
)
def test_an_answer_that_is_broken_off_is_asked_for_again_and_nothing_of_it_is_used(broken: Steps) -> None:
    body = HEAD + file(1) + b"\n" + file(2) + b"\n" + end() + b"\n"
    answers = [broken, broken, reply(body, headers=PROMISED)]
    with scripted(lambda asked: answers[asked.number]) as server, client_of(server.url) as client:
        assert list(client.query(ORDERS, QueryRequest()).lines()) == [file(1), file(2)]
        assert len(server.asked) == 3


def test_an_answer_that_is_always_broken_off_is_an_error() -> None:
    broken = [*chunked(HEAD, file(1), headers=VERSION, whole=False), Close()]
    with scripted(lambda asked: broken) as server, client_of(server.url) as client:
        with pytest.raises(UnavailableError, match="lost"):
            client.query(ORDERS, QueryRequest())
        assert len(server.asked) == 9


@pytest.mark.parametrize(
    "answer",
    [
        reply(HEAD + file(1) + b"\n", headers=PROMISED),
        chunked(HEAD, file(1) + b"\n", headers=PROMISED),
        reply(HEAD + file(1) + b"\n" + end()[:-1], headers=PROMISED),
        reply(HEAD + file(1) + b"\n" + end(), headers=PROMISED, length=len(HEAD) + 10),
        reply(b"", headers=VERSION),
    ],
    ids=["no end", "no end, chunked", "half an end", "a length that is too small", "nothing"],
)
def test_an_answer_that_is_whole_but_not_complete_is_refused_at_once(answer: Steps) -> None:
    with scripted(lambda asked: [*answer, Close()]) as server, client_of(server.url) as client:
        with pytest.raises(SharingError, match=r"sales\.eu\.orders") as failed:
            client.query(ORDERS, QueryRequest())
        assert failed.value.code == "INVALID_ANSWER"
        assert len(server.asked) == 1


def test_a_page_that_breaks_off_is_asked_for_again_with_its_token() -> None:
    first = reply(HEAD + file(1) + b"\n" + end(nextPageToken="two", refreshToken="r"), headers=PROMISED)
    second = reply(HEAD + file(2) + b"\n" + end(), headers=PROMISED)
    answers = [first, [*second[:1], Reset()], error(503), second]
    request = QueryRequest(include_refresh_token=True, limit_hint=9, max_files=1)
    with scripted(lambda asked: answers[asked.number]) as server, client_of(server.url) as client:
        answer = client.query(ORDERS, request)
        assert list(answer.lines()) == [file(1), file(2)]
        assert answer.end == EndStreamAction(refresh_token="r")
        bodies = [json.loads(asked.body) for asked in server.asked]
    assert bodies[0] == {"includeRefreshToken": True, "limitHint": 9, "maxFiles": 1}
    assert bodies[1:] == [{"pageToken": "two", "limitHint": 9, "maxFiles": 1}] * 3


def test_a_query_that_begins_at_a_page_goes_on_from_it() -> None:
    with scripted(lambda asked: reply(HEAD, headers=VERSION)) as server, client_of(server.url) as client:
        client.query(ORDERS, QueryRequest(page_token="here"))
        assert json.loads(server.asked[0].body) == {"pageToken": "here"}


# Queries that are made in the background.


def background(pending: int, *answers: Steps) -> Callable[[Asked], Steps]:
    """A query that is pending for so many requests; its id has letters that URLs do not have."""

    def script(asked: Asked) -> Steps:
        if asked.number < pending:
            status = {"queryStatus": {"queryId": "q/1", "status": "pending"}}
            return reply(json.dumps(status).encode(), headers={"delta-sharing-capabilities": "asyncquery=true"})
        return answers[asked.number - pending]

    return script


def test_a_pending_query_is_polled_with_growing_waits() -> None:
    sleeps = Sleeps()
    first = reply(HEAD + file(1) + b"\n" + end(nextPageToken="two"), headers=PROMISED)
    second = reply(HEAD + file(2) + b"\n" + end(), headers=PROMISED)
    with scripted(background(8, first, second)) as server, client_of(server.url, pool(sleeps)) as client:
        answer = client.query(ORDERS, QueryRequest(max_files=1, limit_hint=5))
        assert (answer.version, list(answer.lines())) == (7, [file(1), file(2)])
        assert sleeps.seconds == [0.25, 0.5, 1, 2, 4, 8, 10, 10]
        assert {unquote(asked.path) for asked in server.asked[1:]} == {f"{PATH}/queries/q/1"}
        assert "q%2F1" in server.asked[1].target
        bodies = [json.loads(asked.body) for asked in server.asked]
    assert bodies[1:-1] == [{"maxFiles": 1}] * 8
    assert bodies[-1] == {"maxFiles": 1, "pageToken": "two"}


def test_a_pending_query_that_fails_is_an_error() -> None:
    answer = error(404, "RESOURCE_DOES_NOT_EXIST", "the query has expired")
    with (
        scripted(background(2, answer)) as server,
        client_of(server.url) as client,
        pytest.raises(SharingError, match="the query has expired"),
    ):
        client.query(ORDERS, QueryRequest())


@pytest.mark.parametrize("field", ["errorMessage", "message"])
def test_a_query_that_failed_in_the_background_is_not_polled_again(field: str) -> None:
    status = {"queryId": "q/1", "status": "failed", field: "the warehouse is full"}
    answer = reply(json.dumps({"queryStatus": status}).encode())
    with (
        scripted(background(2, answer)) as server,
        client_of(server.url) as client,
        pytest.raises(SharingError, match=r"failed to answer a query about .* QUERY_FAILED: the warehouse is full"),
    ):
        client.query(ORDERS, QueryRequest())
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_only_pending_queries_are_polled(status: str) -> None:
    answer = reply(json.dumps({"queryStatus": {"queryId": "q", "status": status}}).encode())
    with (
        scripted(lambda _: answer) as server,
        client_of(server.url) as client,
        pytest.raises(SharingError, match=f"its status is '{status}'"),
    ):
        client.query(ORDERS, QueryRequest())
    assert len(server.asked) == 1


def test_a_query_is_not_waited_for_for_ever() -> None:
    sleeps = Sleeps()
    with (
        scripted(background(1000)) as server,
        client_of(server.url, pool(sleeps), pending_seconds=60) as client,
        pytest.raises(UnavailableError, match="within 60 s"),
    ):
        client.query(ORDERS, QueryRequest())
    assert 45 < sum(sleeps.seconds) <= 60


def test_only_queries_can_be_pending() -> None:
    with (
        scripted(background(1)) as server,
        client_of(server.url) as client,
        pytest.raises(SharingError, match="a pending query"),
    ):
        client.metadata(ORDERS)


# Credentials.


def test_credentials_are_those_of_the_location() -> None:
    answer = {
        "credentials": {
            "location": "s3://b/t",
            "awsTempCredentials": {"accessKeyId": "a", "secretAccessKey": "s", "sessionToken": "t"},
            "gcpOauthToken": None,
            "expirationTime": "1718298900000",
        }
    }
    with scripted(lambda asked: reply(json.dumps(answer).encode())) as server, client_of(server.url) as client:
        found = client.credentials(ORDERS, "s3://b/t")
        assert client.credentials(ORDERS) == found
        assert [(asked.method, asked.path, json.loads(asked.body)) for asked in server.asked] == [
            ("POST", f"{PATH}/temporary-table-credentials", {"location": "s3://b/t"}),
            ("POST", f"{PATH}/temporary-table-credentials", {}),
        ]
    assert (found.location, found.expiration_time) == ("s3://b/t", 1718298900000)
    assert found.aws_temp_credentials is not None
    assert found.aws_temp_credentials.session_token == "t"


def test_a_redirect_to_another_host_does_not_get_the_token() -> None:
    with scripted(lambda asked: reply(b"", 401)) as other:

        def away(asked: Asked) -> Steps:
            return reply(b"", 308, {"location": f"{other.url}{asked.target}"})

        with scripted(away) as server, client_of(server.url) as client:
            with pytest.raises(AuthenticationError):
                client.shares()
            with pytest.raises(SharingError, match="redirects a POST"):
                client.query(ORDERS, QueryRequest())
        assert ["authorization" in asked.headers for asked in other.asked] == [False]


def test_requests_of_many_threads_share_one_client(server: Running) -> None:
    found: list[int] = []
    with client_of(server.endpoint) as client:
        threads = [threading.Thread(target=lambda: found.append(client.version(ORDERS))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert found == [6] * 16
