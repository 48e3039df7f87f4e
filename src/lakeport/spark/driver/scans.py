"""Planned scans, about which Spark tasks ask."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from lakeport.engine.storage.signing import SignedUrl, UrlStorage
from lakeport.errors import StorageError
from lakeport.kernel.deletion_vectors import encode_deletion_vector, read_deletion_vector
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.scan import ScanFile
from lakeport.locations import is_url
from lakeport.spark.driver.document import Question, ScanDocument, UrlAnswer


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
