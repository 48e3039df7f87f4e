"""The sharing server under load: `lakeport serve` as a process of its own, and clients that cost little beside it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOKEN = "bench-token"
TABLE = "/delta-sharing/shares/bench/schemas/main/tables/table"
START_SECONDS = 30


@dataclass(frozen=True)
class Server:
    pid: int
    port: int

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@contextlib.contextmanager
def serving(folder: Path, table: Path) -> Iterator[Server]:
    """A server that shares one table."""
    port = _free_port()
    config = folder / "server.yaml"
    tables = [{"name": "table", "location": str(table), "historyShared": True}]
    shares = [{"name": "bench", "schemas": [{"name": "main", "tables": tables}]}]
    content = {
        "version": 1,
        "shares": shares,
        "authorization": {"bearerToken": TOKEN},
        "host": "127.0.0.1",
        "port": port,
    }
    config.write_text(json.dumps(content))  # JSON is YAML
    with (folder / "server.log").open("ab") as log:
        command = [sys.executable, "-m", "lakeport", "serve", str(config)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await(port, process)
        yield Server(process.pid, port)
    finally:
        process.terminate()
        process.wait(START_SECONDS)


@dataclass(frozen=True)
class Download:
    """One answer to a query, read to its end."""

    first_byte: float
    seconds: float
    cpu_seconds: float
    files: int
    last_line: bytes


def query(server: Server, body: dict[str, object]) -> Download:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    cpu, start = server.cpu_seconds(), time.perf_counter()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("POST", f"{TABLE}/query", json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        tail = answer.read(1)
        first_byte = time.perf_counter() - start
        lines = 0
        while chunk := answer.read1(1 << 20):
            lines += chunk.count(b"\n")
            tail = (tail + chunk)[-4096:]
    seconds = time.perf_counter() - start
    last = tail.splitlines()[-1]
    files = lines - 2 - last.startswith(b'{"endStreamAction"')
    return Download(first_byte, seconds, server.cpu_seconds() - cpu, files, last)


def query_pages(server: Server, size: int) -> int:
    """All pages of a snapshot; the number of its files."""
    token, files = None, 0
    while True:
        page = query(server, {"maxFiles": size} | ({"pageToken": token} if token else {}))
        files += page.files
        token = json.loads(page.last_line)["endStreamAction"].get("nextPageToken")
        if token is None:
            return files


@dataclass(frozen=True)
class Load:
    """Requests that were answered, all of them with success."""

    per_second: float
    p99: float


def load(port: int, path: str, *, connections: int, seconds: float) -> Load:
    return asyncio.run(_load(port, path, connections, seconds))


async def _load(port: int, path: str, connections: int, seconds: float) -> Load:
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    end = time.perf_counter() + seconds
    start = time.perf_counter()
    times = await asyncio.gather(*(_ask(port, request, end) for _ in range(connections)))
    flat = sorted(value for some in times for value in some)
    return Load(len(flat) / (time.perf_counter() - start), flat[int(len(flat) * 0.99)])


async def _ask(port: int, request: bytes, end: float) -> list[float]:
    """One connection that asks again as soon as it is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times = []
    while (start := time.perf_counter()) < end:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(_content_length(head))
        times.append(time.perf_counter() - start)
    writer.close()
    return times


def _content_length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))


def signing_rates(count: int) -> tuple[float, float]:
    """URLs per second that are signed for S3: here, and with boto3."""
    import boto3

    from lakeport.server.catalog.model import Table
    from lakeport.server.signing.signers import Signers

    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_region": "us-east-1"}
    signers = Signers(b"key", endpoint="/delta-sharing", seconds=3600, storage=keys)
    table = Table(id="t", share="s", schema="d", name="t", location="s3://bucket/table")
    signer = signers.for_table(table, "http://127.0.0.1", "ann")
    names = [
        f"part={i % 50}/part-{i:05d}-8b0086f2-7b27-4935-ac5a-8ed6215a6640.c000.snappy.parquet" for i in range(count)
    ]
    start = time.perf_counter()
    signer.sign([f"s3://bucket/table/{name}" for name in names])
    ours = count / (time.perf_counter() - start)

    client = boto3.client("s3", "us-east-1", aws_access_key_id="key", aws_secret_access_key="secret")
    few = names[: count // 20]
    start = time.perf_counter()
    for name in few:
        client.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": f"table/{name}"}, 3600)
    return ours, len(few) / (time.perf_counter() - start)


def report(title: str, value: float, unit: str, limit: float, *, at_least: bool = False) -> None:
    met = value >= limit if at_least else value <= limit
    relation = "at least" if at_least else "limit"
    print(f"{title:58} {value:10,.2f} {unit:10} {relation} {limit:,.2f}  {'ok' if met else 'MISSED'}", flush=True)


def bench_server(folder: Path, large: Path | None) -> None:
    if large is None:
        print("server, 300,000 files: skipped, the shared tables are not at hand")
    else:
        _bench_queries(folder, large)
    ours, peer = signing_rates(40_000)
    report("S3 URLs signed, of what boto3 signs", ours / peer, "times", 5, at_least=True)
    _bench_calls(folder, large or folder)


def _bench_queries(folder: Path, large: Path) -> None:
    with serving(folder, large) as server:
        query(server, {})
        runs = [query(server, {}) for _ in range(5)]
        assert all(run.files == 300_000 for run in runs)
        rate = statistics.median(run.files / run.seconds for run in runs)
        core = statistics.median(run.files / run.cpu_seconds for run in runs)
        report("300,000 files, signed per second", rate, "files/s", 50_000, at_least=True)
        report("300,000 files, signed per second of one core", core, "files/s", 50_000, at_least=True)
        report("300,000 files, first byte when warm", statistics.median(r.first_byte for r in runs), "s", 0.3)
        report("300,000 files, peak memory of the server", server.peak_mb(), "MB", 500)
    with serving(folder, large) as server:
        assert query_pages(server, 10_000) == 300_000
        report("pages of 10,000 files, peak memory of the server", server.peak_mb(), "MB", 200)


def _bench_calls(folder: Path, table: Path) -> None:
    with serving(folder, table) as server:
        for title, path in (("list", "/delta-sharing/shares/bench/all-tables"), ("version", f"{TABLE}/version")):
            load(server.port, path, connections=64, seconds=1)
            result = load(server.port, path, connections=64, seconds=8)
            report(f"{title} calls, 64 connections", result.per_second, "requests/s", 1_000, at_least=True)
            report(f"{title} calls, 99 of 100 within", result.p99 * 1000, "ms", 150)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("the server did not start: see server.log")
