"""The application over real tables on a disk: lists, pages, names, headers, and what surrounds the API."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import requests

from lakeport import tables
from lakeport.server.catalog.admin import ShareAdmin
from lakeport.server.catalog.database import Database
from lakeport.server.catalog.recipient_admin import RecipientAdmin
from lakeport.server.routes.openapi import OPERATIONS
from tests.server.running import TOKEN, Running, recipient, running, sharing, wait_until

ORDERS = "shares/sales/schemas/eu/tables/orders"
JSON = "application/json; charset=utf-8"
NDJSON = "application/x-ndjson; charset=utf-8"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two versions."""
    path = tmp_path_factory.mktemp("tables") / "orders"
    tables.create(str(path), pa.table({"id": [1, 2]}))
    tables.append(str(path), pa.table({"id": [3]}))
    return path


@pytest.fixture(scope="module")
def server(orders: Path) -> Iterator[Running]:
    names = ["sales.eu.orders", "sales.eu.returns", "sales.us.orders", "Häuser%41.a.b", "stock.main.parts"]
    ann, bob = recipient("ann", TOKEN), recipient("bob", "token-of-bob", "sales.us", "stock")
    with running(sharing(dict.fromkeys(names, orders), ann, bob, history_shared=True)) as started:
        yield started


def names_of(server: Running, path: str, **options: object) -> list[str]:
    return [item["name"] for item in server.get(path, **options).json().get("items", [])]


def test_shares_schemas_and_tables_are_listed_in_one_line_of_json(server: Running) -> None:
    answer = server.get("shares")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, JSON)
    assert answer.text.count("\n") == 0
    assert [share["name"] for share in answer.json()["items"]] == ["Häuser%41", "sales", "stock"]
    assert names_of(server, "shares/sales/schemas") == ["eu", "us"]
    assert names_of(server, "shares/sales/schemas/eu/tables") == ["orders", "returns"]
    assert server.get("shares/sales/all-tables").json()["items"][2] == {
        "name": "orders",
        "schema": "us",
        "share": "sales",
        "shareId": "id-of-sales",
        "id": "id-of-sales.us.orders",
        "accessModes": ["url"],
    }


def test_names_have_no_case_and_are_decoded_once(server: Running) -> None:
    assert server.get("shares/SALES").json()["share"]["name"] == "sales"
    assert server.get("shares/Sales/schemas/EU/tables/OrderS/version").status_code == 200
    assert server.get("shares/h%C3%A4user%2541").json()["share"]["name"] == "Häuser%41"
    assert server.get("shares/h%C3%A4user%41").status_code == 404


def test_a_recipient_sees_only_what_is_granted(server: Running) -> None:
    assert names_of(server, "shares", token="token-of-bob") == ["sales", "stock"]
    assert names_of(server, "shares/sales/schemas", token="token-of-bob") == ["us"]
    for path in ("shares/sales/schemas/eu/tables", f"{ORDERS}/version", f"{ORDERS}/metadata"):
        hidden = server.get(path, token="token-of-bob")
        assert (hidden.status_code, hidden.json()["errorCode"]) == (404, "RESOURCE_DOES_NOT_EXIST")
        missing = server.get(path.replace("eu", "nowhere"), token="token-of-bob")
        assert hidden.json()["message"] == missing.json()["message"].replace("nowhere", "eu")


def pages_of(server: Running, path: str) -> Iterator[requests.Response]:
    """As long as there are any, without a word about their size."""
    token: str | None = None
    while True:
        page = server.get(path, params={"pageToken": token} if token else {})
        yield page
        token = page.json().get("nextPageToken")
        if token is None:
            return


def test_long_lists_come_in_pages_also_if_nobody_asks_for_them() -> None:
    tables = [f"a.b.t{number:05}" for number in range(1_234)]
    with running(sharing(dict.fromkeys(tables, "/nowhere"))) as server:
        found = [[item["name"] for item in page.json()["items"]] for page in pages_of(server, "shares/a/all-tables")]
    assert list(map(len, found)) == [500, 500, 234]
    assert [f"a.b.{name}" for page in found for name in page] == tables


def test_pages_of_long_items_have_fewer_of_them() -> None:
    """Comments of shares may have 65,536 characters."""
    content = sharing(dict.fromkeys((f"s{number:03}.b.c" for number in range(300)), "/nowhere"))
    shares = tuple(replace(share, comment="ü" * 65_536) for share in content.shares)
    with running(replace(content, shares=shares)) as server:
        found = list(pages_of(server, "shares"))
    assert max(len(page.content) for page in found) <= 4 << 20
    assert len(found) < 20
    assert [item["name"] for page in found for item in page.json()["items"]] == [share.name for share in shares]


def test_metadata_query_and_changes_answer_lines_with_their_headers(server: Running) -> None:
    metadata = server.get(f"{ORDERS}/metadata", headers={"fileidhash": "Delta"})
    assert metadata.headers["Content-Type"] == NDJSON
    assert metadata.headers["delta-sharing-capabilities"] == "responseformat=parquet"
    assert metadata.headers["fileidhash"] == "delta"
    assert len(metadata.text.splitlines()) == 2
    assert not metadata.text.endswith("\n\n")
    query = server.post(f"{ORDERS}/query", {"version": 0})
    assert (query.headers["Delta-Table-Version"], len(query.text.splitlines())) == ("0", 3)
    assert "fileidhash" not in query.headers
    url = re.findall(r'"url":"([^"]+)"', query.text)[0]
    assert url.startswith(server.endpoint + "/files/")
    assert server.session.get(url, timeout=10).content[:4] == b"PAR1"
    assert server.get(f"{ORDERS}/metadata?version=0").headers["Delta-Table-Version"] == "0"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "nothing", 404, "RESOURCE_DOES_NOT_EXIST"),
        ("GET", "shares/nope", 404, "RESOURCE_DOES_NOT_EXIST"),
        ("GET", f"{ORDERS}x/version", 404, "RESOURCE_DOES_NOT_EXIST"),
        ("DELETE", "shares", 405, "METHOD_NOT_ALLOWED"),
        ("GET", f"{ORDERS}/query", 405, "METHOD_NOT_ALLOWED"),
        ("GET", f"{ORDERS}/metadata?version=x", 400, "INVALID_PARAMETER_VALUE"),
        ("GET", f"{ORDERS}/metadata?version=99", 400, "INVALID_PARAMETER_VALUE"),
        ("GET", f"{ORDERS}/metadata?version=0&timestamp=2026-01-01T00:00:00Z", 400, "INVALID_PARAMETER_VALUE"),
        ("GET", f"{ORDERS}/version?startingTimestamp=soon", 400, "INVALID_PARAMETER_VALUE"),
        ("GET", f"{ORDERS}/changes", 400, "INVALID_PARAMETER_VALUE"),
        ("GET", f"shares?{'&'.join(f'a{i}=1' for i in range(101))}", 400, "INVALID_PARAMETER_VALUE"),
        ("POST", f"{ORDERS}/temporary-table-credentials", 400, "UNSUPPORTED_OPERATION"),
    ],
)
def test_a_refusal_has_a_status_a_code_and_a_message(
    server: Running, method: str, path: str, status: int, code: str
) -> None:
    answer = server.request(method, path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, JSON)
    assert answer.json()["errorCode"] == code
    assert set(answer.json()) == {"errorCode", "message"}
    assert len(answer.json()["message"]) > 10


def test_a_refused_head_has_no_body(server: Running) -> None:
    answer = server.request("HEAD", f"{ORDERS}x")
    assert (answer.status_code, answer.content) == (404, b"")
    assert server.get("shares").status_code == 200  # on the same connection


@pytest.mark.parametrize("modes", [("url",), ("dir",), ("url", "dir")])
def test_a_location_is_told_if_it_is_in_a_store_and_may_be_read_there(tmp_path: Path, modes: tuple[str, ...]) -> None:
    content = sharing(
        {"a.b.disk": tmp_path, "a.b.store": "s3://bucket/table"},
        history_shared=True,
        access_modes=modes,
        auxiliary_locations=("s3://bucket/more",),
    )
    with running(content) as server:
        for path in ("shares/a/schemas/b/tables", "shares/a/all-tables"):
            disk, store = server.get(path).json()["items"]
            assert "location" not in disk
            assert store.get("location") == ("s3://bucket/table" if "dir" in modes else None)
            assert store.get("auxiliaryLocations") == (["s3://bucket/more"] if "dir" in modes else None)
            assert store["accessModes"] == list(modes)


def test_every_answer_has_a_request_id_and_a_sane_one_is_kept(server: Running) -> None:
    assert len(server.get("shares").headers["X-Request-Id"]) == 32
    assert server.get("nothing", headers={"X-Request-Id": "trace-1.2"}).headers["X-Request-Id"] == "trace-1.2"
    insane = server.get("/health", headers={"X-Request-Id": 'a" b' + "c" * 200}).headers["X-Request-Id"]
    assert re.fullmatch("[0-9a-f]{32}", insane)


def test_health_readiness_and_metrics_need_no_token(server: Running) -> None:
    assert server.get("/health", token=None).json() == {"status": "alive"}
    assert server.get("/ready", token=None).json() == {"status": "ready"}
    for probe in ("/health", "/ready"):  # some ask so
        answer = server.request("HEAD", probe, token=None)
        assert (answer.status_code, answer.content) == (200, b"")
    server.get(f"{ORDERS}/version")
    server.post(f"{ORDERS}/query")
    text = server.get("/metrics", token=None).text
    assert re.search(r'lakeport_requests_total\{operation="getTableVersion",status="200"\} [1-9]', text)
    assert re.search(r'lakeport_request_seconds_bucket\{le="0.1",operation="queryTable"\} [1-9]', text)
    assert re.search(r"lakeport_files_granted_total [1-9]", text)
    assert re.search(r"lakeport_bytes_granted_total [1-9]", text)
    assert re.search(r"lakeport_tables_cached [1-9]", text)


def test_metrics_can_be_switched_off(orders: Path) -> None:
    with running(sharing({"a.b.c": orders}), metrics=False) as server:
        assert server.get("/metrics").status_code == 404


def test_readiness_says_no_while_the_server_ends_or_its_catalog_does_not_answer(orders: Path) -> None:
    with running(sharing({"a.b.c": orders})) as server:
        server.app.services.watcher.problem = OSError("connection refused: secret-host")
        answer = server.get("/ready")
        assert (answer.status_code, "secret-host" in answer.text) == (503, False)
        server.app.services.watcher.problem = None
        assert server.get("/ready").status_code == 200
        server.app.services.draining = True
        assert server.get("/ready").status_code == 503
        assert server.get("shares").status_code == 200


def test_a_changed_catalog_takes_effect_without_a_restart(orders: Path) -> None:
    with running(sharing({"a.b.c": orders})) as server:
        assert server.source is not None
        server.source.content = sharing({"a.b.c": orders, "new.b.c": orders})
        wait_until(lambda: names_of(server, "shares") == ["a", "new"])


def test_a_catalog_in_a_database_is_served_as_it_changes(orders: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    with running(catalog=url) as server, closing(Database(url)) as database:
        shares, recipients = ShareAdmin(database), RecipientAdmin(database)
        shares.add_share("sales")
        shares.add_table("sales", "eu", "orders", location=str(orders))
        token = recipients.add("ann", 0)
        wait_until(lambda: server.get("shares", token=token).status_code == 200)
        assert server.get(f"{ORDERS}/version", token=token).status_code == 404
        recipients.grant("ann", "sales")
        wait_until(lambda: server.get(f"{ORDERS}/version", token=token).status_code == 200)


def test_the_endpoint_can_be_another_or_none(orders: Path) -> None:
    for endpoint in ("", "/a/b"):
        with running(sharing({"sales.eu.orders": orders}), endpoint=endpoint) as server:
            assert names_of(server, "shares") == ["sales"]
            url = re.findall(r'"url":"([^"]+)"', server.post(f"{ORDERS}/query").text)[0]
            assert server.session.get(url, timeout=10).status_code == 200
            assert server.get("/health").status_code == 200


def test_other_origins_are_allowed_only_if_configured(orders: Path) -> None:
    origin = {"Origin": "https://app.example.org"}
    with running(sharing({"a.b.c": orders})) as server:
        assert "Access-Control-Allow-Origin" not in server.get("shares", headers=origin).headers
    with running(sharing({"a.b.c": orders}), cors_allow_origins=("https://app.example.org",)) as server:
        allowed = server.get("shares", headers=origin)
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
        other = server.get("shares", headers={"Origin": "https://evil.example.org"})
        assert "Access-Control-Allow-Origin" not in other.headers


def test_the_openapi_document_describes_every_route(server: Running) -> None:
    document = server.get("openapi.json", token=None).json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert document["openapi"].startswith("3.")
    litestar = server.app._api
    routed = {
        (
            method,
            re.sub(r"\{query_id\}", "{queryId}", re.sub(r":\w+\}", "}", route.path)).removeprefix("/delta-sharing"),
        )
        for route in litestar.routes  # type: ignore[attr-defined]
        for method in route.methods - {"OPTIONS"}
    }
    routed -= {("GET", path) for path in ("/health", "/ready", "/metrics", "/openapi.json", "/docs")}
    routed -= {("HEAD", path) for path in ("/health", "/ready")}
    assert described == routed
    assert len(OPERATIONS) == len(described)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert {"200", "400", "401", "403", "404", "429", "500", "503"} <= set(operation["responses"])
            in_path = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert in_path == set(re.findall(r"\{(\w+)\}", path))
    references = re.findall(r'"\$ref":"#/components/(\w+)/(\w+)"', server.get("openapi.json").text)
    assert all(name in document["components"][kind] for kind, name in references)


def test_the_page_of_the_api_needs_no_other_site_and_no_script(server: Running) -> None:
    answer = server.get("docs", token=None)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "<script" not in answer.text
    assert not re.search(r"(?:src|href)='(?:https?:)?//", answer.text)
    for operation in OPERATIONS:
        assert f"<details id='{operation.id}'>" in answer.text
