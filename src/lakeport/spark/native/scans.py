"""Planned scans that tasks of Spark ask about: their files in virtual directories, signed URLs and deletion vectors."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from lakeport.client.local_log import SignedUrl
from lakeport.kernel.deletion_vectors import encode_deletion_vector, read_deletion_vector
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.scan_files import ScanFile

FILE_NUMBER = "__lakeport_file"
"""The virtual partition column of files with a deletion vector: the number of the file."""
WHOLE, WITH_DELETED = "/whole", "/with-deleted"
"""The directories of files without and with deletion vectors."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
_PLAIN = re.compile(r"[^A-Za-z0-9_. -]")


class UrlStorage(Protocol):
    """A storage that knows URLs of its files."""

    def signed(self, path: str, refused: str | None = None) -> SignedUrl: ...


@dataclass(frozen=True)
class PlannedScan:
    """Files by their numbers. Tasks know the secret; nobody else learns a URL."""

    files: Sequence[ScanFile] = field(repr=False)
    directories: Sequence[str] = field(repr=False)
    """Where the files are, below `WHOLE` or `WITH_DELETED`: `day=2026-01-31/country=NL`, or nothing."""
    table_root: str
    storage: StorageClient = field(repr=False)
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @cached_property
    def has_whole(self) -> bool:
        return any(file.deletion_vector is None for file in self.files)

    @cached_property
    def has_deleted(self) -> bool:
        return any(file.deletion_vector is not None for file in self.files)

    def root(self, directory: str) -> str:
        return f"lakeport://{self.id}{directory}"

    def listing(self) -> str:
        """A line for each file: its path, its size and its modification time."""
        lines = (
            f"{self._path(number)}\t{file.size}\t{file.modification_time}" for number, file in enumerate(self.files)
        )
        return "\n".join(lines)

    def _path(self, number: int) -> str:
        file, directory = self.files[number], self.directories[number]
        parts = [WHOLE] if file.deletion_vector is None else [WITH_DELETED, f"{FILE_NUMBER}={number}"]
        return "/".join([*parts, *([directory] if directory else []), f"{number}-{file.size}.parquet"])

    def url(self, number: int, refused: str | None) -> SignedUrl:
        """How a file is read for now. `refused` is the digest of a URL that the storage does not take any more."""
        path = self.files[number].path
        if "://" not in path:
            return SignedUrl(Path(path).as_uri())
        storage: UrlStorage = self.storage  # type: ignore[assignment]  # `readable` has seen to it
        signed = storage.signed(path)
        return storage.signed(path, signed.url) if digest(signed.url) == refused else signed

    def vector(self, number: int) -> bytes:
        """The positions of deleted rows of a file, checked, in the portable format."""
        descriptor = self.files[number].deletion_vector
        assert descriptor is not None
        return encode_deletion_vector(read_deletion_vector(descriptor, self.table_root, self.storage).positions)


def digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def partition_path(values: Iterable[tuple[str, str | None]]) -> str:
    """The virtual directory of a partition, by physical names and texts that Spark casts to the right values."""
    return "/".join(f"{_escape(name)}={_NULL if value is None else _escape(value)}" for name, value in values)


def _escape(text: str) -> str:
    """As Spark undoes it: ASCII characters by their codes."""
    return _PLAIN.sub(lambda found: f"%{ord(found[0]):02X}" if ord(found[0]) < 128 else found[0], text)


Scans = Mapping[str, PlannedScan]
