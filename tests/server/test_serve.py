"""`lakeport serve` as a process: how it starts, what it tells, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import requests

from lakeport import tables
from tests.conftest import ROOT
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
AUTHORIZATION = {"Authorization": "Bearer a-token"}


@dataclass
class Process:
    """A server that listens at `url`."""

    process: subprocess.Popen[str]
    url: str
    told: list[str]
    """Lines of stderr so far."""

    def get(self, path: str, **options: object) -> requests.Response:
        where = path if path.startswith("/") else f"/delta-sharing/{path}"
        return requests.get(self.url + where, headers=AUTHORIZATION, timeout=20, **options)  # type: ignore[arg-type]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


@contextmanager
def served(*arguments: str, folder: Path) -> Iterator[Process]:
    command = [sys.executable, "-m", "lakeport", "serve", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told: list[str] = []
    reader = threading.Thread(target=lambda: told.extend(iter(process.stderr.readline, "")))  # type: ignore[union-attr]
    reader.start()
    try:
        wait_until(lambda: any("listening on" in line for line in told) or process.poll() is not None)
        found = re.search(r"listening on (https?://[^/\s]+)", "".join(told))
        assert found, told
        yield Process(process, found[1], told)
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


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
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
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
    assert text == f"lakeport: port {port} of 127.0.0.1 is in use by another program; choose another one with --port"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 2", "version"),
        ("version: 1\nport: many", "port"),
        ("shares: [", "YAML"),
        ("version: 1\nauditLog: /nowhere/at/all", "/nowhere/at/all"),
        ("version: 1\nssl: {certificateFile: /nowhere, certificateKeyFile: /nowhere}", "ssl"),
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
