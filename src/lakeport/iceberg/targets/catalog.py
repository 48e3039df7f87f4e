"""Mirrors in a catalog: SQL, REST, Glue, Hive and any other with a pyiceberg client.

A new mirror is registered with metadata that Lakeport wrote, since a catalog that creates a table assigns its own field
ids. After that, the catalog writes the metadata from the updates it is sent.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, TableUpdate

from lakeport.errors import ConversionError, StorageError
from lakeport.iceberg.table.metadata import MAIN, apply_updates, current_snapshot, encode_metadata
from lakeport.iceberg.table.schema import Json
from lakeport.iceberg.targets.target import CommitLostError, Published, load_metadata
from lakeport.kernel.engine import Engine
from lakeport.kernel.paths import resolve_path

_UPDATES: TypeAdapter[tuple[TableUpdate, ...]] = TypeAdapter(tuple[TableUpdate, ...])


def open_catalog(given: Catalog | Mapping[str, Any] | str) -> Catalog:
    """A pyiceberg catalog: itself, by its name in pyiceberg's configuration, or by its properties."""
    if isinstance(given, Catalog):
        return given
    return load_catalog(given) if isinstance(given, str) else load_catalog(**given)


class CatalogTarget:
    """A table in a catalog; files are generated below `location`."""

    def __init__(self, engine: Engine, location: str, catalog: Catalog, identifier: str) -> None:
        self._engine, self._catalog, self._identifier = engine, catalog, identifier
        self.location = engine.storage.resolve(location)

    def load(self) -> Published | None:
        try:
            table = self._catalog.load_table(self._identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except FileNotFoundError as error:
            raise ConversionError(
                f"the metadata file of {self._identifier} is missing: drop the table from the catalog and convert "
                f"again [{error}]",
                reason="metadata gone",
            ) from error
        path = resolve_path(self.location, table.metadata_location)
        return Published(load_metadata(self._engine, path), path)

    def publish(self, base: Published | None, start: Json, updates: Sequence[Json]) -> Published:
        return self._register(apply_updates(start, updates, 0)) if base is None else self._commit(base, updates)

    def check_format_version(self, version: int) -> None:
        if version >= 3 and not isinstance(self._catalog, RestCatalog):
            kind = type(self._catalog).__name__
            raise ConversionError(
                f"pyiceberg cannot write format version 3 for a {kind}: use version 2, a REST catalog, or a directory",
                reason="format version",
            )

    def _register(self, metadata: Json) -> Published:
        path = f"{self.location}/metadata/00000-{uuid.uuid4()}.metadata.json"
        self._engine.storage.write(path, encode_metadata(metadata))
        try:
            self._create_namespace()
            self._catalog.register_table(self._identifier, path)
        except TableAlreadyExistsError:
            with suppress(StorageError):
                self._engine.storage.delete([path])
            raise CommitLostError from None
        return Published(metadata, path)

    def _create_namespace(self) -> None:
        namespace = Catalog.namespace_from(self._identifier)
        try:
            self._catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            return
        except Exception:  # concurrent creators, all but one, get a database error
            if not self._catalog.namespace_exists(namespace):
                raise

    def _commit(self, base: Published, updates: Sequence[Json]) -> Published:
        snapshot = current_snapshot(base.metadata)
        current = None if snapshot is None else snapshot["snapshot-id"]
        requirements = (
            AssertTableUUID(uuid=base.metadata["table-uuid"]),
            AssertRefSnapshotId.model_validate({"ref": MAIN, "snapshot-id": current}),
        )
        table = self._catalog.load_table(self._identifier)
        try:
            answer = self._catalog.commit_table(table, requirements, _UPDATES.validate_python(list(updates)))
        except CommitFailedException:
            raise CommitLostError from None
        path = resolve_path(self.location, answer.metadata_location)
        return Published(load_metadata(self._engine, path), path)
