"""`lakeport serve` as a process: how it starts, what it tells, and how it ends."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests

from lakeport import tables
from lakeport.server.catalog.index import Catalog
from lakeport.server.catalog.model import CatalogContent
from lakeport.server.config import ServerConfig, TlsSettings
from lakeport.server.serve import allow_many_connections, exposures, listen
from tests.conftest import ROOT
from tests.server.processes import AUTHORIZATION, make_certificate, served
from tests.server.running import wait_until

CONFIG = """
version: 1
shares:
- name: sales
  schemas:
  - name: eu
    tables:
    - name: orders
      location: {location}
authorization:
  bearerToken: a-token
host: 127.0.0.1
port: {port}
signingKey: a key that is long enough
auditLog: {folder}/audit.jsonl
"""
ORDERS = "shares/sales/schemas/eu/tables/orders"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "orders"
    tables.create(str(path), pa.table({"id": [1, 2]}))
    return path


@pytest.fixture
def config(orders: Path, tmp_path: Path) -> str:
    path = tmp_path / "server.yaml"
    path.write_text(CONFIG.format(location=orders, port=0, folder=tmp_path))
    return str(path)


def test_a_server_tells_where_it_listens_and_what_it_shares_and_ends_with_success(config: str, tmp_path: Path) -> None:
    with served(config, folder=tmp_path) as server:
        assert server.get(f"{ORDERS}/version").headers["Delta-Table-Version"] == "0"
        assert server.get("/ready").status_code == 200
        wait_until(lambda: "sharing 1 table in 1 share with 1 recipient\n" in server.told)
        assert server.end() == 0
    assert '"operation":"getTableVersion"' in (tmp_path / "audit.jsonl").read_text()


def test_without_a_configuration_the_catalog_of_the_folder_is_served(tmp_path: Path) -> None:
    with served("--port", "0", "--host", "127.0.0.1", folder=tmp_path) as server:
        assert server.get("shares").status_code == 401
        assert (tmp_path / "lakeport.db").exists()
        wait_until(lambda: any("lakeport share add" in line for line in server.told))
        assert server.end(signal.SIGINT) == 0


def test_options_come_before_the_configuration(config: str, tmp_path: Path) -> None:
    options = ("--public-url", "https://share.example.org/", "--log-format", "json")
    with served(config, *options, folder=tmp_path) as server:
        found = requests.post(f"{server.url}/delta-sharing/{ORDERS}/query", headers=AUTHORIZATION, json={}, timeout=20)
        assert '"url":"https://share.example.org/delta-sharing/files/' in found.text
        wait_until(lambda: any('"operation":"queryTable"' in line for line in server.told))


def test_an_answer_that_has_begun_is_finished_at_the_end(tmp_path: Path, orders: Path, config: str) -> None:
    large = tmp_path / "large.bin"
    with served(config, folder=tmp_path) as server:
        query = requests.post(f"{server.url}/delta-sharing/{ORDERS}/query", headers=AUTHORIZATION, json={}, timeout=20)
        url = re.findall(r'"url":"([^"]+)"', query.text)[0]
        part = next(orders.glob("*.parquet"))
        kept = part.read_bytes()
        try:
            large.write_bytes(os.urandom(30_000_000))
            os.replace(large, part)
            with requests.get(url, stream=True, timeout=20) as answer:
                received = answer.raw.read(1000)
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                with pytest.raises(requests.ConnectionError):
                    server.get("/health")
                received += answer.raw.read()
            assert len(received) == 30_000_000
            assert server.process.wait(20) == 0
        finally:
            part.write_bytes(kept)


def test_readiness_goes_before_the_server_does(config: str, tmp_path: Path) -> None:
    with served(config, "--drain-seconds", "1.5", folder=tmp_path) as server:
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.get("/ready").status_code == 503)
        assert server.get("shares").status_code == 200
        assert server.process.wait(20) == 0


def test_certificates_make_it_https(config: str, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with Path(config).open("a") as file:
        file.write(f"ssl:\n  selfSigned: false\n  certificateFile: {certificate}\n  certificateKeyFile: {key}\n")
    with served(config, folder=tmp_path) as server:
        assert server.url.startswith("https://")
        assert server.get("shares", verify=str(certificate)).json()["items"][0]["name"] == "sales"
        query = requests.post(
            f"{server.url}/delta-sharing/{ORDERS}/query",
            headers=AUTHORIZATION,
            json={},
            timeout=20,
            verify=str(certificate),
        )
        assert '"url":"https://127.0.0.1:' in query.text


def told_by(*arguments: str) -> tuple[int, str]:
    """The exit code and the last line of a server that does not start."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "lakeport", "serve", *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr.splitlines()[-1]


def test_a_port_that_is_taken_is_told_in_one_line(config: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = told_by(config, "--port", str(port))
    assert code == 1
    assert text == f"lakeport: port {port} of 127.0.0.1 is in use by another program; choose another port with --port"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 2", "version"),
        ("version: 1\nport: many", "port"),
        ("shares: [", "YAML"),
        ("version: 1\nrecipients: []\nauditLog: /nowhere/at/all", "/nowhere/at/all"),
        ("version: 1\nrecipients: []\nssl: {certificateFile: /nowhere, certificateKeyFile: /nowhere}", "ssl"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_told_in_one_line(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text(text)
    code, told = told_by(str(path), "--host", "127.0.0.1", "--port", "0")
    assert code in (1, 2)
    assert told.startswith("lakeport: ")
    assert reason in told


def test_a_configuration_with_shares_has_no_other_catalog(config: str, tmp_path: Path) -> None:
    code, told = told_by(config, "--catalog", f"sqlite:///{tmp_path}/x.db")
    assert code == 2
    assert "--catalog" in told


def test_a_hangup_loads_the_catalog(config: str, tmp_path: Path) -> None:
    with served(config, folder=tmp_path) as server:
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("reloaded the catalog on request" in line for line in server.told))
        path = Path(config)
        path.write_text(path.read_text().replace("- name: sales", "- name: bought"))
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.get("shares").json()["items"][0]["name"] == "bought")
        assert server.end() == 0


def test_a_system_without_user_timeouts_can_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS."""
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    [listening] = listen("127.0.0.1", 0, 120)
    with listening, socket.create_connection(listening.getsockname()):
        pass


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (256, 4096, (4096, 4096)),
        (256, resource.RLIM_INFINITY, (10_240, resource.RLIM_INFINITY)),
        (4096, 4096, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
def test_as_many_descriptors_are_allowed_as_the_system_gives(
    soft: int, hard: int, expected: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    allow_many_connections()
    assert given == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("settings", "addresses", "warned"),
    [
        ({}, ["127.0.0.1", "::1"], False),
        ({}, ["0.0.0.0"], True),
        ({}, ["127.0.0.1", "fe80::1%eth0"], True),
        ({"public_url": "http://sharing.example.com"}, ["0.0.0.0"], True),
        ({"public_url": "https://sharing.example.com"}, ["0.0.0.0"], False),
        ({"ssl": TlsSettings()}, ["0.0.0.0"], False),
    ],
)
def test_tokens_over_plain_http_are_warned_of(settings: dict[str, Any], addresses: list[str], warned: bool) -> None:
    warnings = list(exposures(ServerConfig(**settings), addresses, Catalog(CatalogContent())))
    assert any("tokens are sent over plain HTTP" in warning for warning in warnings) is warned
    assert not list(exposures(ServerConfig(**settings), addresses, Catalog(CatalogContent(anonymous=True))))


def test_a_key_that_everyone_can_read_is_warned_of(config: str, tmp_path: Path) -> None:
    key = tmp_path / "signing.key"
    key.write_text("a key that is long enough")
    path = Path(config)
    path.write_text(path.read_text().replace("signingKey: a key that is long enough", f"signingKeyFile: {key}"))
    for mode, warned in ((0o640, False), (0o644, True)):
        key.chmod(mode)
        with served(config, folder=tmp_path) as server:
            assert any("signingKeyFile: every user of this machine can read" in line for line in server.told) is warned
