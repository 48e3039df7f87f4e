"""A PostgreSQL server of one's own on the loopback interface, alive for the length of a ``with`` block."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from tests.conftest import missing
from tests.interop.servers import START_SECONDS, free_port, running

USER = "lakeport"
_NUMBERS = count(1)


@dataclass
class Postgresql:
    """A server that can be stopped and started again, with its databases."""

    folder: Path
    port: int = field(default_factory=free_port)
    _running: ExitStack = field(default_factory=ExitStack)

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"catalog_{next(_NUMBERS)}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._url(name)

    def _url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        command = [*unprivileged(), program("postgres"), "-D", self.folder / "data", "-p", str(self.port)]
        command += ["-h", "127.0.0.1", "-k", self.folder, "-c", "fsync=off"]
        self._running.enter_context(running(command, self.port, self.folder.with_suffix(".log")))
        self._await_answers()

    def _await_answers(self) -> None:
        """It takes connections before it answers them."""
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self._url("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    @contextmanager
    def hung(self, *, whole: bool = True) -> Iterator[None]:
        """Its backends are stopped: they keep their connections and answer nothing. `whole`: nor are there new ones."""
        leader = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        backends = [int(pid) for pid in Path(f"/proc/{leader}/task/{leader}/children").read_text().split()]
        backends += [leader] * whole
        _signal(backends, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(backends, signal.SIGCONT)

    def stop(self) -> None:
        """At once, whoever is still connected."""
        subprocess.run(
            [*unprivileged(), program("pg_ctl"), "-D", self.folder / "data", "-m", "fast", "stop"],
            check=True,
            capture_output=True,
        )
        self._running.close()


@contextmanager
def postgresql_server() -> Iterator[Postgresql]:
    """A new server; it trusts whoever reaches it. It refuses to run for root: then it runs for nobody."""
    initdb = program("initdb")
    with tempfile.TemporaryDirectory(prefix="lakeport-postgresql-") as place:
        folder = Path(place) / "server"
        folder.mkdir()
        if os.getuid() == 0:
            os.chmod(place, 0o711)
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        command = [*unprivileged(), initdb, "-D", folder / "data", "-U", USER, "--auth=trust", "--no-sync"]
        done = subprocess.run([*command, "--encoding=UTF8", "--locale=C"], capture_output=True, text=True, cwd=folder)
        if done.returncode:
            missing(f"PostgreSQL makes no database: {done.stderr[-2000:]}")
        server = Postgresql(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def unprivileged() -> list[str]:
    """What to put before a command, for it not to run for root."""
    if os.getuid():
        return []
    nobody = pwd.getpwnam("nobody")
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]


def program(name: str) -> Any:
    """A program of PostgreSQL: Debian does not put those of its servers into the path. Or a skip."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    found = shutil.which(name) or next((path / name for path in reversed(versions) if (path / name).exists()), None)
    return found or missing("PostgreSQL is not installed: run scripts/peers.sh")


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):  # such as a worker of the autovacuum that was about to exit
            os.kill(process, number)
