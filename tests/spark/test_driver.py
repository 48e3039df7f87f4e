"""What the driver's service answers to Spark tasks, without a JVM."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest

import lakeport
from lakeport import tables
from lakeport.engine.storage.signing import SignedUrl
from lakeport.errors import StorageError
from lakeport.kernel.scan import ScanFile
from lakeport.spark.driver import FileEntry, PlannedScan, ScanDocument, ScanService, UrlAnswer

SCHEMA = msgspec.Raw(b'{"type":"struct","fields":[]}')
URL = "https://storage/0?signed"


class Urls:
    """Signs a URL anew only if the last one was refused."""

    def __init__(self, *urls: str) -> None:
        self.urls = list(urls)

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        if refused == self.urls[0]:
            del self.urls[0]
        return SignedUrl(self.urls[0])


def planned(root: str, files: list[ScanFile], *urls: str) -> PlannedScan:
    entries = [FileEntry("", file.size, file.deletion_vector is not None) for file in files]
    document = ScanDocument(
        files=entries, table=SCHEMA, stored=SCHEMA, selected=SCHEMA, checked=SCHEMA, settings={"a": "b"}
    )
    return PlannedScan(files, document, root, lakeport.scan(root).engine.storage, Urls(*urls))


@pytest.fixture
def scan(tmp_path: Path) -> PlannedScan:
    """One file on a disk that has a deleted row, and one behind a URL."""
    root = str(tmp_path / "t")
    tables.create(root, {"id": [1, 2, 3]}, properties={"delta.enableDeletionVectors": "true"})
    tables.delete(root, "id = 2")
    far = ScanFile(path="https://table/0", size=100)
    return planned(root, [*lakeport.scan(root).plan().files(), far], URL, URL + "2")


@cache
def service() -> ScanService:
    return ScanService("127.0.0.1", "127.0.0.1", 0)


@pytest.fixture
def served(scan: PlannedScan) -> Iterator[PlannedScan]:
    service().add(scan)
    yield scan
    service().remove(scan)


def ask(scan: PlannedScan, question: str, secret: str | None = None) -> bytes:
    headers = {"Authorization": f"Bearer {secret or scan.secret}"}
    with urlopen(Request(f"{service().address}/{scan.id}?ask={question}", headers=headers)) as answer:
        body: bytes = answer.read()
        return body


def test_the_document_says_what_the_scan_is(served: PlannedScan) -> None:
    document = msgspec.json.decode(ask(served, "document"), type=ScanDocument)
    assert document == served.document
    assert [file.has_deleted for file in document.files] == [True, False]
    assert list(msgspec.json.decode(ask(served, "document"))["files"][0]) == ["directory", "size", "hasDeleted"]


def test_urls_are_asked_for_one_at_a_time_and_again_when_they_are_refused(served: PlannedScan) -> None:
    def url(question: str) -> UrlAnswer:
        return msgspec.json.decode(ask(served, question), type=UrlAnswer)

    assert url("url&file=0").url == Path(served.files[0].path).as_uri()
    assert url("url&file=1") == UrlAnswer(URL, 0)
    refused = hashlib.sha256(URL.encode()).hexdigest()
    assert [url(f"url&file=1&refused={refused}").url for _ in range(2)] == [URL + "2"] * 2


def test_a_url_that_is_none_of_http_is_not_handed_out(scan: PlannedScan, tmp_path: Path) -> None:
    """Who shares a table does not say which files of its own a machine reads."""
    with pytest.raises(StorageError, match="not an http or https URL"):
        planned(scan.table_root, list(scan.files), tmp_path.as_uri()).url(1, None)


def test_a_vector_is_bytes(served: PlannedScan) -> None:
    assert ask(served, "vector&file=0").startswith((1681511377).to_bytes(4, "little"))


def test_a_scan_that_ended_is_forgotten_later(served: PlannedScan) -> None:
    service().forget(time.monotonic())
    assert ask(served, "end") == b""
    assert ask(served, "url&file=0")
    service().forget(time.monotonic())
    with pytest.raises(HTTPError, match="404"):
        ask(served, "url&file=0")


@pytest.mark.parametrize("question", ["url&file=2", "url&file=x", "secret", ""])
def test_other_questions_are_refused(served: PlannedScan, question: str) -> None:
    with pytest.raises(HTTPError, match="404"):
        ask(served, question)


def test_only_the_secret_gets_answers(served: PlannedScan) -> None:
    with pytest.raises(HTTPError, match="404"):
        ask(served, "document", "guessed")
