"""Planned scans that tasks of Spark ask about: their files in virtual directories, signed URLs and deletion vectors."""

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

WHOLE, WITH_DELETED = "/whole", "/with-deleted"
"""The directories of files without and with deletion vectors."""


_SAMPLE = 16


class UrlStorage(Protocol):
    """What knows URLs of files."""

    def signed(self, path: str, refused: str | None = None) -> SignedUrl: ...


@dataclass(frozen=True)
class PlannedScan:
    """Files by their numbers. Tasks know the secret; nobody else learns a URL."""

    files: Sequence[ScanFile] = field(repr=False)
    directories: Sequence[str] = field(repr=False)
    """Where the files are, below `WHOLE` or `WITH_DELETED`: `day=2026-01-31/country=NL`, or nothing."""
    table_root: str
    storage: StorageClient = field(repr=False)
    urls: UrlStorage = field(repr=False)
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def roots(self) -> list[str]:
        """The directories in which there are files: `WHOLE`, `WITH_DELETED`, both or none."""
        return sorted({_root(file) for file in self.files}, reverse=True)

    def listing(self) -> str:
        """A line for each file: its directory, its path below it, its size, and its number where a time of modification
        would be: that is a column which Spark's reader gives to every row."""
        return "\n".join(map(self._line, range(len(self.files))))

    def _line(self, number: int) -> str:
        file = self.files[number]
        below = "/".join(filter(None, [self.directories[number], self._name(number)]))
        return f"{_root(file)}\t{below}\t{file.size}\t{number}"

    def _name(self, number: int) -> str:
        return f"{number}-{self.files[number].size}.parquet"

    def sample(self) -> list[str]:
        """The names of a few files, the first and the last among them: of all, if they are few."""
        last = len(self.files) - 1
        count = min(_SAMPLE, len(self.files))
        return [self._name(last * part // max(1, count - 1)) for part in range(count)]

    def url(self, number: int, refused: str | None) -> SignedUrl:
        """How a file is read for now. `refused` is the digest of a URL that the storage does not take any more."""
        path = self.files[number].path
        if "://" not in path:
            return SignedUrl(Path(path).as_uri())
        signed = self.urls.signed(path)
        signed = self.urls.signed(path, signed.url) if digest(signed.url) == refused else signed
        if not signed.url.lower().startswith(("http://", "https://")):  # nobody else's word makes a task read a disk
            raise StorageError("this is not a URL of http or https", path=path)
        return signed

    def vector(self, number: int) -> bytes:
        """The positions of deleted rows of a file, checked, in the portable format."""
        descriptor = self.files[number].deletion_vector
        assert descriptor is not None
        return encode_deletion_vector(read_deletion_vector(descriptor, self.table_root, self.storage).positions)


def _root(file: ScanFile) -> str:
    return WHOLE if file.deletion_vector is None else WITH_DELETED


def digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def life_of(signed: SignedUrl) -> int:
    """The milliseconds that are left of a URL's life; 0 if it is not known. Clocks differ, this does not."""
    return 0 if signed.expires is None else max(1, int(signed.expires - time.time() * 1000))
