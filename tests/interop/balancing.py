"""A load balancer that knows nothing of HTTP: each connection goes to the next server that takes it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

_PIECE = 1 << 16


@contextmanager
def balanced(*ports: int, listening: socket.socket | None = None) -> Iterator[str]:
    """The URL of a balancer before servers on these ports of the loopback interface."""
    listener = listening or socket.create_server(("127.0.0.1", 0))
    accepting = threading.Thread(target=_accept, args=(listener, ports), daemon=True)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes up who accepts
        accepting.join(10)
        listener.close()


def _accept(listener: socket.socket, ports: tuple[int, ...]) -> None:
    turns = cycle(range(len(ports)))
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, ports, next(turns)), daemon=True).start()


def _serve(client: socket.socket, ports: tuple[int, ...], turn: int) -> None:
    with client:
        for port in (*ports[turn:], *ports[:turn]):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
                there = threading.Thread(target=_pump, args=(client, server), daemon=True)
                there.start()
                _pump(server, client)
                there.join()
                return


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Until the source ends; then both do, for an answer that broke off must not look like one that waits."""
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
