"""Serve a scan to Spark's tasks in the JVM: its description, deletion vectors and URLs.

The JVM gets a scan's address, id and secret, and asks for the rest: `GET {address}/{id}?ask=…`, with the secret as the
bearer token. See `Driver.java` and `ScanDocument.java` in `jvm/`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec
from pyspark.sql import SparkSession

from lakeport.engine.storage.signing import SignedUrl, UrlStorage
from lakeport.errors import LakeportError, StorageError
from lakeport.kernel.deletion_vectors import encode_deletion_vector, read_deletion_vector
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.scan import ScanFile
from lakeport.locations import is_url


class FileEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A data file, whose number is its place in the list."""

    directory: str
    """Its partition values as Spark parses them from paths: `day=2026-01-31/country=NL`, or empty."""
    size: int
    has_deleted: bool


class ScanDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The description of a scan. Schemas are in Spark's JSON."""

    files: list[FileEntry]
    table: msgspec.Raw
    """All columns, void ones included."""
    stored: msgspec.Raw
    """The same with the names or ids they have in files, without void ones."""
    selected: msgspec.Raw
    """The columns to return."""
    checked: msgspec.Raw
    """The columns whose types in some files are checked."""
    settings: Mapping[str, str]
    """The values that the session's settings must have when the scan runs."""


class Question(msgspec.Struct, frozen=True):
    """The parameters of a request by a task or by Spark's driver."""

    ask: Literal["document", "url", "vector", "end"]
    """Answered with a `ScanDocument`; a `UrlAnswer`; the positions of deleted rows, in the portable format; nothing,
    because no plan refers to the scan any more."""
    file: int = 0
    """The number of the file whose URL or vector is wanted."""
    refused: str | None = None
    """The SHA-256 digest of a URL that the storage has rejected."""


class UrlAnswer(msgspec.Struct, frozen=True, rename="camel"):
    url: str
    life_ms: int
    """The remaining lifetime, which is immune to clock differences; 0 if unknown."""


@dataclass(frozen=True)
class PlannedScan:
    """A scan's files by number. Only tasks know the secret, so only they get URLs."""

    files: Sequence[ScanFile] = field(repr=False)
    document: ScanDocument = field(repr=False)
    table_root: str
    storage: StorageClient = field(repr=False)
    urls: UrlStorage = field(repr=False)
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def answer(self, question: Question) -> bytes:
        """Raises `IndexError` for a file that the scan lacks, and the errors of the storage."""
        match question.ask:
            case "document":
                return msgspec.json.encode(self.document)
            case "url":
                signed = self.url(question.file, question.refused)
                return msgspec.json.encode(UrlAnswer(signed.url, _life_of(signed)))
            case "vector":
                return self._vector(question.file)
            case "end":
                return b""

    def url(self, number: int, refused: str | None) -> SignedUrl:
        """A URL to read a file for now. `refused` is the digest of a URL that the storage has rejected."""
        path = self.files[number].path
        if not is_url(path):
            return SignedUrl(Path(path).as_uri())
        signed = self.urls.signed(path)
        signed = self.urls.signed(path, signed.url) if digest(signed.url) == refused else signed
        if not signed.url.lower().startswith(("http://", "https://")):  # servers must not make tasks read local disks
            raise StorageError("not an http or https URL", path=path)
        return signed

    def _vector(self, number: int) -> bytes:
        """The deleted row positions of a file, validated, in the portable format."""
        descriptor = self.files[number].deletion_vector
        assert descriptor is not None
        return encode_deletion_vector(read_deletion_vector(descriptor, self.table_root, self.storage).positions)


def digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def _life_of(signed: SignedUrl) -> int:
    return 0 if signed.expires is None else max(1, int(signed.expires - time.time() * 1000))


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
