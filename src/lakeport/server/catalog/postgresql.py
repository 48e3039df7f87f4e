"""PostgreSQL connections that time out."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

from psycopg import Connection, OperationalError
from sqlalchemy import Engine, event

_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 15
_SILENT_SECONDS = 30

T = TypeVar("T")

ARGUMENTS: dict[str, Any] = {
    "connect_timeout": _CONNECT_SECONDS,
    # A network may drop packets silently: require acknowledgements, and probe idle peers.
    "tcp_user_timeout": _SILENT_SECONDS * 1000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def limit_waiting(engine: Engine) -> None:
    """Make slow statements time out, on both client and server."""
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "connect", _limit_statements)


def _connect(dialect: object, record: object, args: tuple[Any, ...], parameters: dict[str, Any]) -> Connection[Any]:
    return _PatientConnection.connect(*args, **parameters)


class _PatientConnection(Connection[Any]):
    """Times out on the client: a stopped backend, or one on a hung host, does not enforce its own timeouts."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        return super().wait(self._until(time.monotonic() + _ANSWER_SECONDS, gen), *args, **kwargs)

    def _until(self, deadline: float, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run the same steps until the deadline; psycopg takes one at least every tenth of a second."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    self.pgconn.finish()
                    raise OperationalError(f"the database did not respond within {_ANSWER_SECONDS} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


def _limit_statements(connection: Connection[Any], _: object) -> None:
    connection.execute(f"SET statement_timeout = {_ANSWER_SECONDS * 1000}".encode())
    connection.commit()
