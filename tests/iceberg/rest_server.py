"""A REST catalog as small as can be, alive for the length of a `with` block: it keeps metadata files on a disk.

It has what a mirror needs of Iceberg's REST protocol: configuration, namespaces, and tables that are loaded,
registered, dropped, and changed by requirements and updates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from lakeport.iceberg.table.metadata import apply_updates

ENDPOINTS = [
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
]


class RestServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = Lock()
        self.namespaces: set[str] = set()
        self.tables: dict[str, Path] = {}
        self.commits: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: RestServer

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        if self.path.startswith("/v1/config"):
            return self._answer(200, {"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS})
        return self._load(self.path)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            if self.path == "/v1/namespaces":
                return self._create_namespace(".".join(body["namespace"]))
            if self.path.endswith("/register"):
                return self._register(self.path.removesuffix("register"), body)
            return self._commit(self.path, body)

    def _create_namespace(self, name: str) -> None:
        if name in self.server.namespaces:
            return self._fail(409, "AlreadyExistsException")
        self.server.namespaces.add(name)
        return self._answer(200, {"namespace": name.split("."), "properties": {}})

    def _register(self, prefix: str, body: dict[str, Any]) -> None:
        path = f"{prefix}tables/{body['name']}"
        if path in self.server.tables:
            return self._fail(409, "AlreadyExistsException")
        self.server.tables[path] = Path(body["metadata-location"])
        return self._load(path)

    def _load(self, path: str) -> None:
        found = self.server.tables.get(path.partition("?")[0])
        if found is None:
            return self._fail(404, "NoSuchTableException")
        metadata = json.loads(found.read_text())
        return self._answer(200, {"metadata-location": str(found), "metadata": metadata, "config": {}})

    def _commit(self, path: str, body: dict[str, Any]) -> None:
        current = self.server.tables[path]
        metadata = json.loads(current.read_text())
        for requirement in body["requirements"]:
            if requirement["type"] == "assert-ref-snapshot-id":
                if metadata["current-snapshot-id"] != requirement["snapshot-id"]:
                    return self._fail(409, "CommitFailedException")
            else:
                assert requirement["uuid"] == metadata["table-uuid"]
        self.server.commits.append(body)
        updates = [{"last-column-id": metadata["last-column-id"], **update} for update in body["updates"]]
        later = current.with_name(f"{len(self.server.commits):05d}.metadata.json")
        later.write_text(json.dumps(apply_updates(metadata, updates, 0)))
        self.server.tables[path] = later
        return self._load(path)

    def _fail(self, status: int, kind: str) -> None:
        self._answer(status, {"error": {"message": kind, "type": kind, "code": status}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def rest_server() -> Iterator[RestServer]:
    with RestServer() as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
