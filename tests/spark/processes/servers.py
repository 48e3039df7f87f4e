"""Spark's servers on this machine, each a process of its own, on the loopback only: a standalone cluster, and Connect.

    with spark_cluster(tmp_path) as master:             # spark://127.0.0.1:…
        run_driver(master, "tests.spark.processes.distribution_driver", str(tmp_path))
    with connect_server(tmp_path) as remote:            # sc://127.0.0.1:…
        run_driver(remote, "tests.spark.processes.distribution_driver", str(tmp_path))

A process has one session of Spark: a driver for one of these is another process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from tests.conftest import ROOT

_HOST = "127.0.0.1"
_SPARK_HOME = Path(pyspark.__file__).parent
_PATIENCE = 120.0
"""Seconds."""


@dataclass(frozen=True)
class Cluster:
    master: str
    folder: Path
    """Has the logs and the work of all its processes."""


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


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """The URL of a server of Spark Connect, with its log in the directory."""
    port = _free_port()
    settings = {
        "spark.connect.grpc.binding.address": _HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": _HOST,
        "spark.driver.host": _HOST,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    options = [option for name, value in settings.items() for option in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = str(_SPARK_HOME / "bin" / "spark-submit")
    command = [submit, "--master", "local[2]", "--driver-memory", "1g", "--class", server, *options, "spark-internal"]
    with _process(directory, command, environment(directory)):
        _wait_for(lambda: _listens(port), "Spark Connect has not started")
        yield f"sc://{_HOST}:{port}"


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
    command = [str(_SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host]
    with _process(directory, [*command, *options.split()], environment(directory) | {"SPARK_LOCAL_IP": host}):
        yield


@contextmanager
def _process(directory: Path, command: list[str], env: dict[str, str]) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, cwd=directory, stdout=log, stderr=log)
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
    def are_there() -> bool:
        try:
            with urlopen(page, timeout=5) as answer:
                return bool(json.load(answer)["aliveworkers"] == workers)
        except (URLError, OSError, ValueError):  # not yet there, or only half of it
            return False

    _wait_for(are_there, f"the cluster has not got its {workers} workers")


def _wait_for(condition: Callable[[], bool], failure: str) -> None:
    until = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(failure)
        time.sleep(0.1)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        port: int = free.getsockname()[1]
        return port
