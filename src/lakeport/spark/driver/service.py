"""The service in this process that answers Spark tasks about planned scans."""

from __future__ import annotations

import secrets
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from pyspark.sql import SparkSession

from lakeport.errors import LakeportError
from lakeport.spark.driver.document import Question
from lakeport.spark.driver.scans import PlannedScan

PORT = "spark.lakeport.driver.port"
"""The setting for the service's port, for executors that can reach only some ports of the driver."""


_KEPT_SECONDS = 3600
"""A scan is kept this long after its last plan is gone: running tasks may still need it."""


class ScanService:
    """Serves registered scans, as long as plans refer to them, to clients with their secrets."""

    def __init__(self, host: str, bind: str, port: int) -> None:
        self._scans: dict[str, PlannedScan] = {}
        self._ended: dict[str, float] = {}
        self._server = _Server((bind, port), _Handler)
        self._server.service = self
        Thread(target=self._server.serve_forever, name="lakeport-scans", daemon=True).start()
        name = f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{self._server.server_address[1]}"

    def __len__(self) -> int:
        """The number of registered scans."""
        return len(self._scans)

    def add(self, scan: PlannedScan) -> None:
        self.forget(time.monotonic() - _KEPT_SECONDS)
        self._scans[scan.id] = scan

    def remove(self, scan: PlannedScan) -> None:
        """Remove a scan that no plan refers to any more."""
        self._scans.pop(scan.id, None)

    def forget(self, moment: float) -> None:
        """Drop the scans that had ended by a moment of `time.monotonic`."""
        for scan_id in [scan_id for scan_id, ended in list(self._ended.items()) if ended <= moment]:
            self._ended.pop(scan_id, None)
            self._scans.pop(scan_id, None)

    def answer(self, path: str, authorization: str) -> tuple[int, bytes]:
        """A status and the answer, or an error for people."""
        parts = urlsplit(path)
        scan_id = parts.path[1:]
        scan = self._scans.get(scan_id)
        if scan is None or not secrets.compare_digest(authorization.encode(), f"Bearer {scan.secret}".encode()):
            return 404, b"the driver does not have this scan, or not any more: make the frame again"
        try:
            question = msgspec.convert(dict(parse_qsl(parts.query)), Question, strict=False)
            if question.ask == "end":
                self._ended[scan_id] = time.monotonic()
            return 200, scan.answer(question)
        except LakeportError as error:
            return 500, str(error).encode()
        except (ValueError, IndexError):
            return 404, b"the scan has no such thing"
        except Exception as error:  # its text may contain a URL
            return 500, f"the driver failed with {type(error).__name__}".encode()


@cache
def service_at(host: str, bind: str, port: int) -> ScanService:
    """The service for sessions whose executors reach this process as `host`."""
    return ScanService(host, bind, port)


def service_for(spark: SparkSession) -> ScanService:
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        return service_at("127.0.0.1", "127.0.0.1", 0)
    conf = context.getConf()
    host = str(conf.get("spark.driver.host", "127.0.0.1"))
    return service_at(host, str(conf.get("spark.driver.bindAddress", host)), int(conf.get(PORT, "0") or 0))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    service: ScanService

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore tasks that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        status, body = self.server.service.answer(self.path, self.headers.get("Authorization", ""))
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """No request log: all clients are tasks of this session."""
