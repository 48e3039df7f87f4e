"""Servers in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.conftest import ROOT
from tests.server.running import wait_until

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
def served(*arguments: str, folder: Path, descriptors: int | None = None) -> Iterator[Process]:
    """`descriptors`: how many files and connections the process may have open."""
    limited = [] if descriptors is None else ["prlimit", f"--nofile={descriptors}"]
    command = [*limited, sys.executable, "-m", "lakeport", "serve", *arguments]
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


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for the loopback interface, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
