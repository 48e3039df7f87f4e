"""Where a mirror is published: the interface between a conversion and the owner of the current metadata.

`PathTarget` is a directory, `CatalogTarget` (in `catalog.py`) a table of a catalog. A target accepts metadata
atomically, from one of several concurrent writers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from lakeport.errors import CorruptTableError, MissingFileError, StorageError
from lakeport.iceberg.table.metadata import apply_updates, decode_metadata, encode_metadata, with_previous
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.engine import Engine

_HINT = "version-hint.text"
_VERSIONED = re.compile(r"v(\d+)\.metadata\.json")


class CommitLostError(Exception):
    """Another converter published first: reload the table."""


@dataclass(frozen=True)
class Published:
    """The metadata that is current, or was when loaded."""

    metadata: Json
    path: str
    """The path of its file, plain."""
    version: int = 0
    """The number of its file, if files are numbered."""


class Target(Protocol):
    """A place for one Iceberg table."""

    @property
    def location(self) -> str:
        """The directory of the table, plain, with the generated files below it."""

    def check_format_version(self, version: int) -> None:
        """Raises `ConversionError` if it cannot hold a table of this version."""

    def load(self) -> Published | None:
        """The published table; None if there is none yet. Raises `CorruptTableError`."""

    def publish(self, base: Published | None, start: Json, updates: Sequence[Json]) -> Published:
        """Publish `start` with `updates` applied, if `base` is still published. `start` is the metadata of `base`, or
        of a new table. Raises `CommitLostError` if another writer was first; then nothing has changed."""


class PathTarget:
    """Tables in Hadoop's layout: `metadata/vN.metadata.json`, and a hint file with the latest N.

    A version is created exclusively, so it has one author. The hint may lag behind, but never leads."""

    def __init__(self, engine: Engine, location: str) -> None:
        self._engine, self._storage = engine, engine.storage
        self.location = engine.storage.resolve(location)

    def check_format_version(self, version: int) -> None:
        """Any version is fine."""

    def load(self) -> Published | None:
        hinted = self._hinted()
        version = self._latest(hinted)
        if version is None:
            return None
        if version != hinted:  # its writer was interrupted
            self._write_hint(version)
        path = self._path(version)
        return Published(load_metadata(self._engine, path), path, version)

    def publish(self, base: Published | None, start: Json, updates: Sequence[Json]) -> Published:
        metadata = apply_updates(start, updates, self._engine.now())
        if base is not None:
            metadata = with_previous(metadata, base.metadata, base.path)
        version = 1 if base is None else base.version + 1
        path, data = self._path(version), encode_metadata(metadata)
        try:
            self._storage.write(path, data)
        except FileExistsError:
            if self._storage.read(path) != data:  # it is ours if only the storage's response was lost
                raise CommitLostError from None
        self._write_hint(version)
        return Published(metadata, path, version)

    def _path(self, version: int) -> str:
        return f"{self.location}/metadata/v{version}.metadata.json"

    def _write_hint(self, version: int) -> None:
        """The hint is optional: readers of a stale one look for later versions."""
        with suppress(StorageError):
            while True:
                self._storage.write(f"{self.location}/metadata/{_HINT}", str(version).encode(), overwrite=True)
                if not self._exists(version + 1):
                    return
                version += 1

    def _latest(self, hinted: int | None) -> int | None:
        version = hinted
        if version is None or not self._exists(version):
            version = max(self._listed(), default=None)
        while version is not None and self._exists(version + 1):
            version += 1
        return version

    def _hinted(self) -> int | None:
        try:
            text = self._storage.read(f"{self.location}/metadata/{_HINT}").decode(errors="replace").strip()
        except MissingFileError:
            return None
        return int(text) if text.isdecimal() else None

    def _listed(self) -> Iterable[int]:
        for file in self._storage.list_from(f"{self.location}/metadata", "v"):
            if named := _VERSIONED.fullmatch(file.path.rpartition("/")[2]):
                yield int(named[1])

    def _exists(self, version: int) -> bool:
        return self._storage.status(self._path(version)) is not None


def load_metadata(engine: Engine, path: str) -> Json:
    """The metadata in a file. Raises `CorruptTableError`."""
    try:
        return decode_metadata(engine.storage.read(path))
    except ValueError as error:
        raise CorruptTableError(f"the table's metadata cannot be read: {error}", path=path) from error
