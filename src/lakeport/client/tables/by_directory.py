"""A shared table read in its own directory with temporary credentials. See "Generate Temporary Table Credential" in the
protocol."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from threading import Lock
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from lakeport.client.rest.server import SharingServer
from lakeport.engine import engine_over
from lakeport.engine.storage.ranges import open_ranges
from lakeport.engine.storage.signing import SignedUrl
from lakeport.engine.storage.storage import ReadOnlyStorage, Storage
from lakeport.errors import AccessDeniedError, SharingError, StorageError, UnsupportedFeatureError
from lakeport.freshness import Clock, Fresh, Renewed, renew_at
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.paths import is_within
from lakeport.kernel.snapshot import Table
from lakeport.locations import cloud_of, scheme_of
from lakeport.sharing.models import Credentials
from lakeport.sharing.names import TableName
from lakeport.source import PathTable

Ask = Callable[[], Credentials]
"""Requests credentials from the server. Raises `SharingError`."""

_LAST_SECOND = 253_402_300_799
"""The end of year 9999."""


class TemporaryStorage:
    """A storage reopened with new credentials when the old ones are about to expire or are rejected. Thread-safe."""

    def __init__(self, ask: Ask, options: Mapping[str, Any], now: Clock = time.time) -> None:
        self._ask, self._options, self._now = ask, options, now
        self._storage: Renewed[Storage] = Renewed(now)
        self._location = ""

    @property
    def location(self) -> str:
        """The directory that the credentials are for."""
        self.current()
        return self._location

    def current(self) -> Storage:
        return self._storage.current(self._open)

    def refused(self, storage: Storage) -> Storage:
        """A new storage in place of one whose credentials were rejected."""
        return self._storage.instead_of(storage, self._open)

    def _open(self) -> Fresh[Storage]:
        asked = self._now()
        given = self._ask()
        self._location = given.location.rstrip("/")
        storage = Storage({**self._options, **storage_options(given)})
        return Fresh(storage, renew_at(asked, given.expiration_time / 1000))


def storage_options(given: Credentials) -> dict[str, Any]:
    """The credentials under obstore's names. Raises `SharingError` if there are none of a known kind, and
    `UnsupportedFeatureError` for an unsupported location."""
    scheme = scheme_of(given.location)
    if cloud_of(given.location) is None and scheme != "https":
        raise UnsupportedFeatureError(
            f"the directory of the table is in a storage that Lakeport does not support "
            f"({scheme or 'a disk'}); ask the provider to share it by signed URLs",
            features=["dir access"],
        )
    if (aws := given.aws_temp_credentials) is not None:
        return {
            "access_key_id": aws.access_key_id,
            "secret_access_key": aws.secret_access_key,
            "session_token": aws.session_token,
        }
    if (azure := given.azure_user_delegation_sas) is not None:
        return {"sas_key": azure.sas_token.removeprefix("?")}
    if (google := given.gcp_oauth_token) is not None:
        return {"credential_provider": _google_token(google.oauth_token, given.expiration_time)}
    raise SharingError(
        "the server sent no temporary credentials of a supported kind; tell the provider",
        status=200,
        code="INVALID_ANSWER",
    )


def _google_token(token: str, expires_ms: int) -> Callable[[], dict[str, Any]]:
    expires = datetime.fromtimestamp(min(max(0, expires_ms // 1000), _LAST_SECOND), UTC)
    return lambda: {"token": token, "expires_at": expires}


T = TypeVar("T")

_EXPIRED = re.compile(r"Expired|InvalidToken|TokenRefreshRequired", re.IGNORECASE)
"""S3 rejects an expired token with status 400."""


DIRECTORY_ONLY = "DIRECTORY_ONLY"
"""The error code for a table offered by directory but not by signed URLs."""


class _Places(msgspec.Struct, frozen=True, rename="camel"):
    """The table's locations, from its metadata."""

    access_modes: tuple[str, ...] | None = None
    auxiliary_locations: tuple[str, ...] | None = None


class _MetadataLine(msgspec.Struct, frozen=True):
    metaData: _Places  # noqa: N815  # the key in JSON


def check_offered_by_urls(metadata_line: bytes, name: TableName) -> None:
    """Raises `SharingError` with the code `DIRECTORY_ONLY` if the metadata rules out signed URLs."""
    modes = _places(metadata_line).access_modes or ()
    if "dir" in modes and "url" not in modes:
        message = f"the table {name} is shared by its directory only: read it with access='dir'"
        raise SharingError(message, status=400, code=DIRECTORY_ONLY)


def _places(metadata_line: bytes) -> _Places:
    try:
        return msgspec.json.decode(metadata_line, type=_MetadataLine).metaData
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _Places()  # the error is reported when the line is read for its schema


class DirectoryTable(PathTable):
    """The table's own log, read by the kernel. `storage_options` are obstore's, without the credentials."""

    def __init__(self, server: SharingServer, name: TableName, storage_options: Mapping[str, Any]) -> None:
        self._storage = DirectoryStorage(server, name, storage_options)
        super().__init__(engine_over(self._storage), str(name))

    @cached_property
    def _table(self) -> Table:
        return Table.for_path(self.engine, self._storage.location)


class DirectoryStorage(ReadOnlyStorage):
    """A read-only `StorageClient` for a table's directory and the other locations of its files, each with its own
    credentials. Retries once with new credentials when denied."""

    def __init__(self, server: SharingServer, name: TableName, options: Mapping[str, Any]) -> None:
        self._server, self._name, self._options = server, name, options
        self._own = TemporaryStorage(lambda: server.credentials(name), options)
        self._others: dict[str, TemporaryStorage] | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[DirectoryStorage], tuple[SharingServer, TableName, Mapping[str, Any]]]:
        """Another process requests its own credentials."""
        return DirectoryStorage, (self._server, self._name, self._options)

    @property
    def location(self) -> str:
        """The table's directory."""
        return self._own.location

    def resolve(self, path: str) -> str:
        return path.rstrip("/")

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        return self._listed(directory, lambda storage: storage.list_from(directory, first_name))

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        return self._listed(directory, lambda storage: storage.list_all(directory))

    def scans_directories(self, directory: str) -> bool:
        return False

    def status(self, path: str) -> FileStatus | None:
        return self._tried(path, lambda storage: storage.status(path))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._tried(path, lambda storage: storage.read(path, start, length))

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        if not files:
            return iter(())
        for file in files:
            self._place(file.path)
        return self._resumed(files[0].path, lambda storage, done: storage.read_many(files[done:]))

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return open_ranges(self, file)

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        """A URL that works no longer than the credentials that sign it; they are replaced if it is rejected."""
        place = self._place(path)
        storage = place.current()
        signed = storage.signed(path)
        return place.refused(storage).signed(path) if signed.url == refused else signed

    def _tried(self, path: str, read: Callable[[Storage], T]) -> T:
        place = self._place(path)
        storage = place.current()
        try:
            return read(storage)
        except StorageError as error:
            if not _is_refusal(error):
                raise
        return read(place.refused(storage))

    def _listed(self, path: str, read: Callable[[Storage], Iterator[FileStatus]]) -> Iterator[FileStatus]:
        return self._resumed(path, partial(_without_first, read))

    def _resumed(self, path: str, read: Callable[[Storage, int], Iterator[T]]) -> Iterator[T]:
        """The items of `read`; calls it again with the number received so far if credentials are rejected meanwhile."""
        place, done, refused_at = self._place(path), 0, -1
        storage = place.current()
        while True:
            try:
                for found in read(storage, done):
                    yield found
                    done += 1
                return
            except StorageError as error:
                if not _is_refusal(error) or refused_at == done:
                    raise
            refused_at, storage = done, place.refused(storage)

    def _place(self, path: str) -> TemporaryStorage:
        """The location of a path. Raises `AccessDeniedError` if the server names none: a log must not make its reader
        open local files or other people's objects."""
        if is_within(path, self._own.location):
            return self._own
        with self._lock:
            if self._others is None:
                self._others = self._auxiliary()
            others = self._others
        found = [location for location in others if is_within(path, location)]
        if not found:
            raise AccessDeniedError(
                "the table's log names a file outside the directories that the server shares; ask the provider to "
                "add its directory to the table's auxiliary locations",
                path=path,
            )
        return others[max(found, key=len)]

    def _auxiliary(self) -> dict[str, TemporaryStorage]:
        with self._server.metadata(self._name) as answer:
            locations = _places(answer.metadata_line).auxiliary_locations or ()
        return {
            location: TemporaryStorage(partial(self._server.credentials, self._name, location), self._options)
            for location in locations
        }


def _without_first(
    read: Callable[[Storage], Iterator[FileStatus]], storage: Storage, done: int
) -> Iterator[FileStatus]:
    found = read(storage)
    for _ in range(done):
        next(found, None)
    return found


def _is_refusal(error: StorageError) -> bool:
    return isinstance(error, AccessDeniedError) or _EXPIRED.search(str(error)) is not None
