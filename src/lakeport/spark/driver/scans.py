"""Planned scans, served to Spark tasks: their files in virtual directories, signed URLs and deletion vectors."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lakeport.client.tables.local_log import SignedUrl
from lakeport.errors import StorageError
from lakeport.kernel.deletion_vectors import encode_deletion_vector, read_deletion_vector
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.scan import ScanFile
from lakeport.locations import is_url

WHOLE, WITH_DELETED = "/whole", "/with-deleted"
"""The directories of files without and with deletion vectors."""


_SAMPLE = 16


class UrlStorage(Protocol):
    """A source of file URLs."""

    def signed(self, path: str, refused: str | None = None) -> SignedUrl: ...


@dataclass(frozen=True)
class PlannedScan:
    """A scan's files by number. Only tasks know the secret, so only they get URLs."""

    files: Sequence[ScanFile] = field(repr=False)
    directories: Sequence[str] = field(repr=False)
    """Each file's directory below `WHOLE` or `WITH_DELETED`: `day=2026-01-31/country=NL`, or empty."""
    table_root: str
    storage: StorageClient = field(repr=False)
    urls: UrlStorage = field(repr=False)
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def roots(self) -> list[str]:
        """The directories that have files: `WHOLE`, `WITH_DELETED`, both or none."""
        return sorted({_root(file) for file in self.files}, reverse=True)

    def listing(self) -> str:
        """One line per file: its directory, its path below that, its size, and its number in place of a modification
        time, which Spark's reader offers as a column of every row."""
        return "\n".join(map(self._line, range(len(self.files))))

    def _line(self, number: int) -> str:
        file = self.files[number]
        below = "/".join(filter(None, [self.directories[number], self._name(number)]))
        return f"{_root(file)}\t{below}\t{file.size}\t{number}"

    def _name(self, number: int) -> str:
        return f"{number}-{self.files[number].size}.parquet"

    def sample(self) -> list[str]:
        """The names of a few files, including the first and the last; all names if there are few."""
        last = len(self.files) - 1
        count = min(_SAMPLE, len(self.files))
        return [self._name(last * part // max(1, count - 1)) for part in range(count)]

    def url(self, number: int, refused: str | None) -> SignedUrl:
        """A URL to read a file for now. `refused` is the digest of a URL that the storage has rejected."""
        path = self.files[number].path
        if not is_url(path):
            return SignedUrl(Path(path).as_uri())
        signed = self.urls.signed(path)
        signed = self.urls.signed(path, signed.url) if digest(signed.url) == refused else signed
        if not signed.url.lower().startswith(("http://", "https://")):  # servers must not make tasks read local disks
            raise StorageError("this is not a URL of http or https", path=path)
        return signed

    def vector(self, number: int) -> bytes:
        """The deleted row positions of a file, validated, in the portable format."""
        descriptor = self.files[number].deletion_vector
        assert descriptor is not None
        return encode_deletion_vector(read_deletion_vector(descriptor, self.table_root, self.storage).positions)


def _root(file: ScanFile) -> str:
    return WHOLE if file.deletion_vector is None else WITH_DELETED


def digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def life_of(signed: SignedUrl) -> int:
    """The URL's remaining lifetime in milliseconds, which is immune to clock differences; 0 if unknown."""
    return 0 if signed.expires is None else max(1, int(signed.expires - time.time() * 1000))
