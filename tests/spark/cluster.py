"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, on the loopback only.

    with spark_cluster(tmp_path) as master:             # spark://127.0.0.1:…
        run_driver(master, "tests.spark.distribution_driver", str(tmp_path))

A process has one session of Spark: a driver for the cluster is another process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

ROOT = Path(__file__).resolve().parent.parent.parent
_HOST = "127.0.0.1"
_SPARK_HOME = Path(pyspark.__file__).parent
_PATIENCE = 120.0
"""Seconds."""


@contextmanager
def spark_cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """The URL of a master with so many workers of one core each; logs and work of all are in the directory."""
    port, page = _free_port(), _free_port()
    master = f"spark://{_HOST}:{port}"
    with ExitStack() as stack:
        stack.enter_context(_daemon(directory / "master", "master.Master", f"--port {port} --webui-port {page}"))
        for number in range(workers):
            stack.enter_context(spark_worker(directory / f"worker-{number}", master))
        _wait_for_workers(f"http://{_HOST}:{page}/json/", workers)
        yield master


def spark_worker(directory: Path, master: str, host: str = _HOST) -> AbstractContextManager[None]:
    """One more worker of a cluster that runs. Spark takes those at other addresses (`127.0.0.2`) for other machines."""
    return _daemon(directory, "worker.Worker", f"--cores 1 --memory 1g --webui-port 0 {master}", host)


def run_driver(master: str, module: str, *arguments: str, patience: float = 600) -> Any:
    """Runs a module of the tests with the master's URL as its first argument; what it prints last is JSON."""
    command = [sys.executable, "-W", "ignore", "-m", module, master, *arguments]
    done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=patience)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def environment(directory: Path | None = None) -> dict[str, str]:
    """That of a driver, and of the daemons, which hand it on to tasks and work in a directory."""
    own = {} if directory is None else {"SPARK_WORKER_DIR": str(directory)}
    return os.environ | {
        **own,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(_SPARK_HOME),
        "SPARK_LOCAL_IP": _HOST,
    }


@contextmanager
def _daemon(directory: Path, name: str, options: str, host: str = _HOST) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    command = [str(_SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *options.split()],
            env=environment(directory) | {"SPARK_LOCAL_IP": host},
            cwd=directory,
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_workers(page: str, workers: int) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            with urlopen(page, timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == workers:
                    return
        except (URLError, OSError, ValueError):  # not yet there, or only half of it
            pass
        time.sleep(0.2)
    raise TimeoutError(f"the cluster has not got its {workers} workers")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        port: int = free.getsockname()[1]
        return port
