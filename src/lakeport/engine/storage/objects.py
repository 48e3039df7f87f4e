"""Objects in a bucket or container, through obstore."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa

from lakeport.engine.storage.failures import first_line, store_errors
from lakeport.engine.storage.pools import RequestPool, pool
from lakeport.engine.storage.ranges import Opened, open_ranges
from lakeport.engine.storage.signing import SignedUrl, sign_object
from lakeport.engine.storage.throttling import Patience, patiently, wait_if_throttled
from lakeport.engine.storage.uploads import SINGLE_PUT, ObjectUpload
from lakeport.errors import MissingFileError, StorageError, UnusableStorageError
from lakeport.freshness import RenewedValues
from lakeport.kernel.engine import FileStatus
from lakeport.locations import Cloud, cloud_of, respelled
from lakeport.workers.ordered import ahead

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

_R = TypeVar("_R")
_PARALLEL_REQUESTS = 64
_READ_AHEAD = 64 << 20
"""About the most bytes of small files to hold before they are taken."""

_PIECE = 8 << 20
"""Longer ranges are fetched in pieces, so a broken connection costs only a piece, and a slow one does not stall all."""
_PIECES_AHEAD = 4
_PARALLEL_PIECES = 16

_SILENCE = timedelta(seconds=30)
"""A download times out if nothing arrives for this long, however long the whole takes."""
_UPLOAD_ANSWER = timedelta(minutes=15)
"""An upload times out without a response for this long. The client's clock runs while the body is sent, so the limit
must allow for slow links; TCP gives up on unacknowledged data within this time."""
_UNLIMITED = timedelta(days=1)
_RETRIES, _RETRIES_OF_PARTS = 4, 12

_MAY_BE_PAST_THE_END = re.compile(r"\b416\b|range", re.IGNORECASE)
"""Stores reject a range past the end, each with its own error."""

_BULK_DELETE = 1000
"""Objects deleted per request, where the store supports it (S3; Azure: 256)."""


class ObjectFiles:
    """One bucket or container."""

    def __init__(
        self,
        root: str,
        store: ObjectStore,
        open_uploads: Callable[[int], ObjectStore] | None = None,
        patience: Patience = Patience(),  # noqa: B008  # it does not change
    ) -> None:
        """`open_uploads` opens the same store for writing, with other timeouts and so many retries."""
        self._root = root
        self._store, self._open_uploads, self._patience = store, open_uploads, patience
        self._urls: RenewedValues[SignedUrl] = RenewedValues()
        self._lately = Opened()

    @cached_property
    def _puts(self) -> ObjectStore:
        return self._open_uploads(_RETRIES) if self._open_uploads else self._store

    @cached_property
    def _uploads(self) -> ObjectStore:
        """For uploads in parts, which cannot begin again: obstore must be patient itself."""
        return self._open_uploads(_RETRIES_OF_PARTS) if self._open_uploads else self._store

    def _patiently(self, call: Callable[[], _R]) -> _R:
        return patiently(call, self._patience)

    def _listed(self, prefix: str | None, offset: str | None = None) -> Iterator[Sequence[ObjectMeta]]:
        """All pages of a listing; where the store throttles, it goes on after the last name."""
        intervals = self._patience.intervals()
        while True:
            try:
                for chunk in self._store.list(prefix, offset=offset):
                    yield chunk
                    offset = chunk[-1]["path"] if chunk else offset
                return
            except Exception as error:
                wait_if_throttled(error, intervals)

    def _key(self, path: str) -> str:
        return path[len(self._root) :].strip("/")

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        prefix = self._key(directory)
        # The offset is exclusive, so it ends one character before the first name.
        offset = f"{prefix}/{first_name[:-1]}" if first_name else None
        with store_errors(directory):
            for chunk in self._listed(prefix, offset):
                for meta in chunk:
                    name = meta["path"][len(prefix) + 1 :]
                    if name.startswith("_") and first_name[:1].isdigit():
                        return  # names are sorted: only subdirectories and hints follow the numbered files
                    if "/" in name or name < first_name:
                        continue
                    yield _status(f"{directory}/{name}", meta)

    def scans_directories(self, directory: str) -> bool:
        return False

    def status(self, path: str) -> FileStatus | None:
        try:
            with store_errors(path):
                meta = self._patiently(lambda: self._store.head(self._key(path)))
        except MissingFileError:
            return None
        return _status(path, meta)

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        prefix = self._key(directory)
        skipped = len(prefix) + 1 if prefix else 0
        with store_errors(directory):
            for chunk in self._listed(prefix or None):
                for meta in chunk:
                    if name := meta["path"][skipped:]:
                        yield _status(f"{directory}/{name}", meta)

    def list_directory(self, directory: str) -> tuple[list[FileStatus], list[str]]:
        prefix = self._key(directory)
        skipped = len(prefix) + 1 if prefix else 0
        with store_errors(directory):
            found = self._patiently(lambda: self._store.list_with_delimiter(prefix or None))
        named = [(meta["path"][skipped:], meta) for meta in found["objects"]]
        files = [_status(f"{directory}/{name}", meta) for name, meta in named if name]
        return files, [f"{directory}/{path[skipped:].strip('/')}" for path in found["common_prefixes"]]

    def read(self, path: str, start: int = 0, length: int | None = None, version: _Version | None = None) -> bytes:
        """Every read with the same `version` is of the same content. Raises `StorageError` if the object changes."""
        version = version or _Version()
        if length is None or length <= _PIECE:
            return self._read_piece(path, version, start, length)
        pieces = (
            pool("pieces", _PARALLEL_PIECES).submit(self._read_piece, path, version, *piece)
            for piece in _cut(start, length)
        )
        read = io.BytesIO()
        for data in ahead(pieces, _PIECES_AHEAD):
            read.write(data)
            if len(data) < _PIECE:  # the last piece, or the file is shorter than the caller thinks
                break
        return read.getvalue()

    def _read_piece(self, path: str, version: _Version, start: int, length: int | None) -> bytes:
        if length == 0:
            return b""
        with store_errors(path):
            try:
                found = self._patiently(lambda: self._get(self._key(path), start, length))
                data = bytes(found.bytes())
            except Exception as error:
                if start and _MAY_BE_PAST_THE_END.search(first_line(error)) and start >= self._size(path):
                    return b""
                raise
        version.check(found.meta["e_tag"], path)
        return data

    def _size(self, path: str) -> int:
        return self._store.head(self._key(path))["size"]

    def _get(self, key: str, start: int, length: int | None) -> GetResult:
        options: Any = None
        if length is not None:
            options = {"range": (start, start + length)}
        elif start:
            options = {"range": {"offset": start}}
        return self._store.get(key, options=options)

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        calls = (_requests().submit(self.read, file.path) for file in files)
        first = list(islice(calls, 1))  # on its way even if the caller does something else first
        largest = max((file.size for file in files), default=0)
        return ahead(chain(first, calls), min(_READ_AHEAD // max(largest, 1), 2 * _PARALLEL_REQUESTS) or 1)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return open_ranges(_OneVersion(self), file, self._lately)

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        """Raises `StorageError` if the store does not sign."""
        return self._urls.of(path).get(
            lambda known: known.value.url == refused or known.until <= time.time(),
            lambda: sign_object(self._store, self._key(path), path),
        )

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        mode: Literal["overwrite", "create"] = "overwrite" if overwrite else "create"
        in_parts = None if len(data) > SINGLE_PUT else False
        with store_errors(path):
            self._patiently(lambda: self._puts.put(self._key(path), data, mode=mode, use_multipart=in_parts))

    def open_output(self, path: str) -> ObjectUpload:
        return ObjectUpload(partial(self.write, path, overwrite=True), lambda: self._uploads, self._key(path), path)

    def delete(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _BULK_DELETE):
            bulk = paths[start : start + _BULK_DELETE]
            try:
                with store_errors(bulk[0]):
                    self._patiently(partial(self._store.delete, [self._key(path) for path in bulk]))
            except (MissingFileError, StorageError):  # one of them failed; the others' fate is unknown
                self._delete_each(bulk)

    def _delete_each(self, paths: Sequence[str]) -> None:
        failures = [error for error in _requests().map(self._delete_one, paths) if error]
        if failures:
            raise failures[0]

    def _delete_one(self, path: str) -> StorageError | None:
        try:
            with store_errors(path):
                self._patiently(lambda: self._store.delete(self._key(path)))
        except MissingFileError:
            return None
        except StorageError as error:
            return error
        return None


class _Version:
    """The content of an object, as its first response had it."""

    def __init__(self) -> None:
        self._tags: set[str] = set()

    def check(self, tag: str | None, path: str) -> None:
        """Raises `StorageError` if another response had another tag."""
        if tag is not None:
            self._tags.add(tag)
        if len(self._tags) > 1:
            raise StorageError("the object was overwritten while it was read; read it again", path=path)


class _OneVersion:
    """Reads ranges of an object, all of the same content: a writer may overwrite a checkpoint with an equal one."""

    def __init__(self, files: ObjectFiles) -> None:
        self._files, self._version = files, _Version()

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._files.read(path, start, length, self._version)


def _requests() -> RequestPool:
    return pool("storage", _PARALLEL_REQUESTS)


def _cut(start: int, length: int) -> Iterator[tuple[int, int]]:
    """Pieces of a range, as (start, length)."""
    return ((at, min(_PIECE, start + length - at)) for at in range(start, start + length, _PIECE))


def _status(path: str, meta: ObjectMeta) -> FileStatus:
    return FileStatus(path, meta["size"], int(meta["last_modified"].timestamp() * 1000), meta["e_tag"])


_CLIENT_OPTION = re.compile(
    r"(?:aws_|azure_|google_)?(allow_http|allow_invalid_certificates|connect_timeout|default_content_type|http1_only"
    r"|http2_\w+|pool_idle_timeout|pool_max_idle_per_host|proxy_\w+|randomize_addresses|read_timeout|timeout|user_agent)",
    re.IGNORECASE,
)
"""HTTP client options. obstore fails if they are among a store's options."""

_PREFIXES = {Cloud.AWS: "aws_", Cloud.AZURE: "azure_", Cloud.GCS: "google_"}
_NAMES_CLOUD = re.compile(r"(aws_|azure_|google_)", re.IGNORECASE)


def open_object_files(
    root: str,
    options: Mapping[str, Any],
    *,
    silence: timedelta = _SILENCE,
    patience: Patience = Patience(),  # noqa: B008  # it does not change
) -> ObjectFiles:
    """The bucket or container, for reading and writing. Downloads time out after `silence`. Raises `StorageError`."""

    def open_uploads(retries: int) -> ObjectStore:
        return open_store(root, options, silence=_UPLOAD_ANSWER, retries=retries)

    return ObjectFiles(root, open_store(root, options, silence=silence), open_uploads, patience)


def open_store(
    root: str, options: Mapping[str, Any], *, silence: timedelta = _SILENCE, retries: int = _RETRIES
) -> ObjectStore:
    """Ignores options that name another cloud: they are for other stores. Raises `StorageError`.

    Requests time out after `silence`, regardless of size: obstore's own limit of 30 s applies to whole bodies."""
    client: Any = {"read_timeout": silence, "timeout": _UNLIMITED}
    config: Any = {}
    prefix = _PREFIXES.get(cloud) if (cloud := cloud_of(root)) else None
    for name, value in options.items():
        if prefix and (named := _NAMES_CLOUD.match(name)) and named[1].lower() != prefix:
            continue
        if found := _CLIENT_OPTION.fullmatch(name):
            client[found[1].lower()] = value
        else:
            config[name] = value
    credential_provider = config.pop("credential_provider", None)
    if root.startswith("http://"):
        client["allow_http"] = True
    from obstore.store import from_url  # lazy: local tables do not need its memory

    try:
        return from_url(
            respelled(root),
            config=config or None,
            client_options=client,
            retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=8 * retries)},
            credential_provider=credential_provider,
        )
    except Exception as error:  # obstore's own, and ValueError for unknown options
        raise UnusableStorageError(f"cannot open the storage: {first_line(error)}", path=root) from error
