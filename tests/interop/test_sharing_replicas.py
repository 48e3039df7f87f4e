"""Several servers on one database behind a load balancer: to recipients they are one, whichever answers."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from lakeport import tables
from lakeport.server.catalog.admin import ShareAdmin
from lakeport.server.catalog.database import Database
from lakeport.server.catalog.recipient_admin import RecipientAdmin
from tests.conftest import ROOT
from tests.interop.balancing import balanced
from tests.interop.postgresql import Postgresql, postgresql_server
from tests.server.asking import built, pretended
from tests.server.processes import Process, served
from tests.server.running import wait_until

ORDERS = "shares/sales/schemas/eu/tables/orders"
LARGE = "shares/sales/schemas/eu/tables/large"
FILES = 50_000
"""Whose lines are more than what the buffers between a server and a client hold."""
PAGED = {"delta-sharing-capabilities": "responseformat=parquet;includeendstreamaction=true"}
CONFIG = """
version: 1
catalog: {catalog}
host: 127.0.0.1
port: 0
publicUrl: {public}
asyncQueryAfterSeconds: {patience}
"""


@dataclass(frozen=True)
class Replicas:
    """Servers with one catalog, and the token of a recipient that may read all of it."""

    database: Postgresql
    catalog: str
    balancer: str
    servers: tuple[Process, ...]
    token: str
    folder: Path

    def ask(self, server: Process | str, path: str, body: Any = None, **options: Any) -> requests.Response:
        """One request on a connection of its own; with a body it is a POST."""
        url = server if isinstance(server, str) else server.url
        token = options.pop("token", self.token)
        headers = {"Authorization": f"Bearer {token}", "Connection": "close"} | options.pop("headers", {})
        where = f"{url}{path}" if path.startswith("/") else f"{url}/delta-sharing/{path}"
        method = "GET" if body is None else "POST"
        return requests.request(method, where, json=body, headers=headers, timeout=60, **options)

    def admin(self, *arguments: str) -> str:
        """Runs `lakeport` on the catalog; the token that it has made, if it has."""
        command = [sys.executable, "-m", "lakeport", *arguments, "--catalog", self.catalog]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        found = re.search(r'"bearerToken":\s*"([^"]+)"', told)
        return found[1] if found else ""

    def everywhere(self, token: str, path: str, status: int) -> None:
        """Waits until all servers answer so."""
        for server in self.servers:
            wait_until(lambda server=server: self.ask(server, path, token=token).status_code == status)  # type: ignore[misc]


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    with postgresql_server() as database, ExitStack() as stack:
        catalog = database.new_database()
        token = fill(catalog, folder)
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        public = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = write_config(folder, catalog, public)
        servers = tuple(stack.enter_context(served(config, folder=folder)) for _ in range(2))
        ports = [urlsplit(server.url).port or 0 for server in servers]
        balancer = stack.enter_context(balanced(*ports, listening=listening))
        yield Replicas(database, catalog, balancer, servers, token, folder)


def write_config(folder: Path, catalog: str, public: str, patience: float = 0) -> str:
    path = folder / f"server-{patience}.yaml"
    path.write_text(CONFIG.format(catalog=catalog, public=public, patience=patience))
    return str(path)


def fill(catalog: str, folder: Path) -> str:
    """Makes tables, shares them, and gives the token of who may read them."""
    rows = pa.table({"id": range(6), "day": list("abcdef")})
    tables.create(str(folder / "orders"), rows, partition_by=["day"], properties={"delta.enableChangeDataFeed": "true"})
    built(folder / "large").create(*(pretended(f"part-{number:05}-{'x' * 100}.parquet") for number in range(FILES)))
    database = Database(catalog)
    shares, recipients = ShareAdmin(database), RecipientAdmin(database)
    shares.add_share("sales")
    for name in ("orders", "large"):
        shares.add_table("sales", "eu", name, location=str(folder / name), history_shared=True)
    token = recipients.add("ann", 0)
    recipients.grant("ann", "*")
    database.close()
    return token


def end_of(answer: requests.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text.splitlines()[-1])["endStreamAction"]
    return found


def ids_of(answer: requests.Response) -> list[str]:
    return re.findall(r'"id":"([0-9a-f]{32})"', answer.text)


def test_pages_go_on_at_any_replica(replicas: Replicas) -> None:
    turns = cycle(replicas.servers)
    whole = ids_of(replicas.ask(next(turns), f"{ORDERS}/query", {}))
    for path, body in ((f"{ORDERS}/query", {"maxFiles": 1}), (f"{ORDERS}/changes?startingVersion=0&maxFiles=1", None)):
        found: list[str] = []
        following: dict[str, str] = {}
        while True:
            options = {"params": following} if body is None else {}
            answer = replicas.ask(
                next(turns), path, None if body is None else body | following, headers=PAGED, **options
            )
            found += ids_of(answer)
            if "nextPageToken" not in (end := end_of(answer)):
                break
            following = {"pageToken": end["nextPageToken"]}
        assert sorted(found) == sorted(whole)
        assert len(found) == 6


def test_lists_go_on_at_any_replica(replicas: Replicas) -> None:
    first, second = replicas.servers
    page = replicas.ask(first, "shares/sales/all-tables?maxResults=1").json()
    rest = replicas.ask(second, "shares/sales/all-tables", params={"pageToken": page["nextPageToken"]}).json()
    assert [table["name"] for table in page["items"] + rest["items"]] == ["large", "orders"]


def test_a_refresh_at_another_replica_is_of_the_same_version(replicas: Replicas) -> None:
    first, second = replicas.servers
    before = replicas.ask(first, f"{ORDERS}/query", {"includeRefreshToken": True}, headers=PAGED)
    tables.append(str(replicas.folder / "orders"), {"id": [7], "day": ["a"]})
    after = replicas.ask(second, f"{ORDERS}/query", {"refreshToken": end_of(before)["refreshToken"]}, headers=PAGED)
    assert ids_of(after) == ids_of(before)
    assert after.headers["Delta-Table-Version"] == before.headers["Delta-Table-Version"]
    tables.restore(str(replicas.folder / "orders"), version=0)


def test_a_pending_query_is_answered_by_any_replica(replicas: Replicas) -> None:
    first, second = replicas.servers
    headers = {"delta-sharing-capabilities": "asyncquery=true"}
    pending = replicas.ask(first, f"{ORDERS}/query", {}, headers=headers)
    query = json.loads(pending.text)["queryStatus"]["queryId"]
    answers = [replicas.ask(server, f"{ORDERS}/queries/{query}", {}) for server in (second, first, second)]
    assert [len(ids_of(answer)) for answer in answers] == [6, 6, 6]


def test_urls_lead_through_the_balancer_and_any_replica_serves_the_file(replicas: Replicas) -> None:
    answer = replicas.ask(replicas.balancer, f"{ORDERS}/query", {})
    urls = re.findall(r'"url":"([^"]+)"', answer.text)
    assert all(url.startswith(f"{replicas.balancer}/delta-sharing/files/") for url in urls)
    places = [replicas.balancer, *(server.url for server in replicas.servers)]
    for place in places:
        contents = [requests.get(url.replace(replicas.balancer, place), timeout=20).content for url in urls]
        rows = [pq.ParquetFile(io.BytesIO(content)).read() for content in contents]
        assert sorted(number for table in rows for number in table.column("id").to_pylist()) == [0, 1, 2, 3, 4, 5]


def test_changes_on_the_command_line_reach_all_replicas(replicas: Replicas) -> None:
    token = replicas.admin("recipient", "add", "bob")
    replicas.everywhere(token, "shares", 200)
    replicas.everywhere(token, f"{ORDERS}/version", 404)
    replicas.admin("grant", "add", "bob", "sales.eu.orders")
    replicas.everywhere(token, f"{ORDERS}/version", 200)
    newer = replicas.admin("recipient", "rotate", "bob", "--overlap", "0h")
    replicas.everywhere(newer, f"{ORDERS}/version", 200)
    replicas.everywhere(token, "shares", 401)
    replicas.admin("recipient", "revoke", "bob")
    replicas.everywhere(newer, "shares", 401)
    replicas.everywhere(replicas.token, "shares", 200)


def taken(replicas: Replicas, balancer: str) -> int | None:
    """How many files a client was told of, or None for an error."""
    try:
        answer = replicas.ask(balancer, f"{LARGE}/query", {}, headers=PAGED)
        end_of(answer)
        return len(ids_of(answer))
    except (requests.RequestException, ValueError, KeyError):
        return None


def test_a_replica_that_is_killed_gives_no_short_answer_that_looks_whole(replicas: Replicas) -> None:
    config = write_config(replicas.folder, replicas.catalog, replicas.balancer, patience=60)
    survivor = replicas.servers[0]
    with served(config, folder=replicas.folder) as victim, ThreadPoolExecutor(4) as pool:
        ports = [urlsplit(server.url).port or 0 for server in (victim, survivor)]
        with balanced(*ports) as balancer:
            assert taken(replicas, balancer) == FILES
            begun = replicas.ask(victim, f"{LARGE}/query", {}, stream=True)
            assert begun.raw.read(1 << 16)
            readers = [pool.submit(taken, replicas, balancer) for _ in range(4)]
            victim.end(signal.SIGKILL)
            with pytest.raises(requests.RequestException):
                b"".join(begun.iter_content(1 << 16))
            begun.close()
            assert {reader.result() for reader in readers} <= {None, FILES}
            assert [taken(replicas, balancer) for _ in range(3)] == [FILES] * 3


def test_a_client_that_looks_for_no_end_notices_it_too(replicas: Replicas) -> None:
    """The lines alone do not tell where the answer ends: the connection does."""
    config = write_config(replicas.folder, replicas.catalog, replicas.balancer)
    with (
        served(config, folder=replicas.folder) as victim,
        balanced(urlsplit(victim.url).port or 0) as balancer,
        replicas.ask(balancer, f"{LARGE}/query", {}, stream=True) as begun,
    ):
        assert begun.status_code == 200
        victim.end(signal.SIGKILL)
        with pytest.raises(requests.RequestException):
            b"".join(begun.iter_content(1 << 16))


def test_servers_go_on_without_their_database_and_find_it_again(replicas: Replicas) -> None:
    def all_ready(status: int) -> None:
        for server in replicas.servers:
            wait_until(lambda server=server: replicas.ask(server, "/ready").status_code == status)  # type: ignore[misc]

    all_ready(200)
    replicas.database.stop()
    try:
        all_ready(503)
        for server in replicas.servers:
            assert replicas.ask(server, "/ready").json()["reason"] == "the catalog does not respond"
            assert replicas.ask(server, "/health").status_code == 200
            assert len(ids_of(replicas.ask(server, f"{ORDERS}/query", {}))) == 6
            assert replicas.ask(server, "shares", token="wrong").status_code == 401
    finally:
        replicas.database.start()
    all_ready(200)
    token = replicas.admin("recipient", "add", "cid")
    replicas.everywhere(token, "shares", 200)
