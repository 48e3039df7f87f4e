"""A real server on a free port of the loopback interface, alive for the length of a ``with`` block.

    with running(sharing({"sales.eu.orders": path})) as server:
        server.get("shares").json()

``running`` serves from a thread of this process; ``lakeport serve`` as a process of its own is in test_serve.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from lakeport.server.app import create_app
from lakeport.server.catalog.index import token_digest
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient, Share, Table
from lakeport.server.config import ServerConfig
from lakeport.server.middleware import Observed
from lakeport.server.serve import GracefulServer, listen, server_settings

TOKEN = "token-of-ann"
KEY = "a signing key that tests share"
START_SECONDS = 20


class FixedSource:
    """A catalog that is a value; `content` may be replaced."""

    def __init__(self, content: CatalogContent) -> None:
        self.content = content

    def generation(self) -> object:
        return id(self.content)

    def load(self) -> CatalogContent:
        return self.content

    def signing_key(self) -> bytes | None:
        return KEY.encode()

    def close(self) -> None: ...


def recipient(name: str, token: str, *grants: str, **more: Any) -> Recipient:
    return Recipient(
        id=f"id-of-{name}",
        name=name,
        tokens=(BearerToken(digest=token_digest(token)),),
        grants=grants or ("*",),
        **more,
    )


def sharing(tables: Mapping[str, str | Path], *recipients: Recipient, **table_settings: Any) -> CatalogContent:
    """A catalog of tables by their names `share.schema.table`, for the recipient "ann" unless others are given."""
    names = {name: tuple(name.split(".")) for name in tables}
    return CatalogContent(
        shares=tuple(Share(id=f"id-of-{share}", name=share) for share in sorted({n[0] for n in names.values()})),
        schemas=tuple(sorted({n[:2] for n in names.values()})),  # type: ignore[misc]
        tables=tuple(
            Table(
                id=f"id-of-{name}",
                share=names[name][0],
                schema=names[name][1],
                name=names[name][2],
                location=str(location),
                **table_settings,
            )
            for name, location in tables.items()
        ),
        recipients=recipients or (recipient("ann", TOKEN),),
    )


@dataclass(frozen=True)
class Running:
    """A server that answers. Paths are below the endpoint: `shares`."""

    url: str
    """Where it listens: scheme, host and port."""
    app: Observed
    source: FixedSource | None
    session: requests.Session
    token: str | None = TOKEN

    @property
    def endpoint(self) -> str:
        return f"{self.url}{self.app.services.config.endpoint}"

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        """`token=None` sends none; an absolute path is below the server itself."""
        token = options.pop("token", self.token)
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        options["headers"] = headers | options.get("headers", {})
        where = f"{self.url}{path}" if path.startswith("/") else f"{self.endpoint}/{path}"
        return self.session.request(method, where, timeout=60, **options)

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        options |= {"data": body} if isinstance(body, bytes | str) else {"json": {} if body is None else body}
        return self.request("POST", path, **options)


@contextmanager
def running(
    content: CatalogContent | None = None,
    *,
    source: FixedSource | None = None,
    config: ServerConfig | None = None,
    tables: Any = None,
    **settings: Any,
) -> Iterator[Running]:
    """Serves a catalog (or the one of `source`, or that `config` names). `settings` are those of `ServerConfig`."""
    source = FixedSource(content) if content is not None else source
    config = config or ServerConfig(**settings)
    app = create_app(config, source=source, tables=tables)
    sockets = listen("127.0.0.1", 0, config.limits.stall_seconds)
    port = sockets[0].getsockname()[1]
    started = threading.Event()
    server = GracefulServer(server_settings(app, config, grace_seconds=5), app, 0, started.set)
    thread = threading.Thread(target=server.run, args=(sockets,), name="server-under-test")
    thread.start()
    try:
        assert started.wait(START_SECONDS), "the server did not start"
        scheme = "https" if config.ssl else "http"
        with requests.Session() as session:
            yield Running(f"{scheme}://127.0.0.1:{port}", app, source, session)
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
        assert not thread.is_alive()


def wait_until(condition: Callable[[], bool]) -> None:
    """Returns as soon as the condition holds; fails if it never does."""
    ends = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < ends, "this never happened"
        time.sleep(0.01)
