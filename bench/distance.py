"""A server on this machine, and a proxy before it that makes it as distant as one in a data center."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_CHUNK = 1 << 18


@dataclass
class Distance:
    """Delays each response by `seconds` and limits a connection to `bytes_per_second`; `requests` has the first line of
    each request."""

    upstream: int
    seconds: float
    bytes_per_second: float
    port: int = 0
    requests: list[str] = field(default_factory=list)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.upstream, limit=_CHUNK)
        exchange = _Exchange(self)
        pumps = [asyncio.ensure_future(p) for p in (exchange.ask(reader, back), exchange.answer(there, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # the end of the benchmark; asyncio would report it
        finally:
            for pump in pumps:
                pump.cancel()
            for end in (writer, back):
                end.transport.abort()

    async def serve(self, started: threading.Event) -> None:
        """Runs until it is cancelled."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=_CHUNK, backlog=256)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await asyncio.Event().wait()


@dataclass
class _Exchange:
    """The requests of one connection, one after another."""

    distance: Distance
    waiting: bool = False
    """Whether the response has not begun yet."""

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if not self.waiting:
                self.waiting = True
                self.distance.requests.append(data.partition(b"\r\n")[0].decode("latin1"))
            writer.write(data)
            await writer.drain()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        now, free = asyncio.get_running_loop().time, 0.0
        while data := await reader.read(_CHUNK):
            if self.waiting:
                await asyncio.sleep(self.distance.seconds)
                self.waiting = False
            free = max(free, now()) + len(data) / self.distance.bytes_per_second
            writer.write(data)
            await writer.drain()
            if (early := free - now()) > 0.001:
                await asyncio.sleep(early)


@contextmanager
def at_distance(port: int, seconds: float, bytes_per_second: float = 100e6) -> Iterator[Distance]:
    """The server at `port`, at another port, with this latency and bandwidth."""
    distance, started, loop = Distance(port, seconds, bytes_per_second), threading.Event(), asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="distance", daemon=True).start()
    served = asyncio.run_coroutine_threadsafe(distance.serve(started), loop)
    started.wait()
    try:
        yield distance
    finally:
        served.cancel()
        asyncio.run_coroutine_threadsafe(_end_connections(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)


async def _end_connections() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others) if others else None


@contextmanager
def running(command: list[str], port: int, log: Path, environment: dict[str, str]) -> Iterator[None]:
    """A server, from when it listens at its port to the end of the block."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            for _ in range(600):
                if _listens(port):
                    break
                assert process.poll() is None, f"{command[0]} did not start: {log.read_text()}"
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
