"""Serves table files on a local disk by signed URL: GET and HEAD, with ranges and conditions (RFC 9110, sections 13 and
14). Files are opened below a root, resolving links; changes while a file is read are detected.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from io import FileIO
from stat import S_ISREG
from threading import Lock

from lakeport.engine.storage.confined import open_within
from lakeport.errors import AccessDeniedError, MissingFileError, SharingError, StorageError
from lakeport.server.access.recipients import check_address
from lakeport.server.catalog.index import Catalog
from lakeport.server.catalog.model import table_roots
from lakeport.server.http.asgi import Header, Receive, RequestRecord, Scope, Send, abort, disconnection, header
from lakeport.server.http.lanes import BlockingPool, Lane
from lakeport.server.http.refusals import Refusal, error_reply, not_found, unavailable
from lakeport.server.signing.disk import FileUrl, FileUrls
from lakeport.server.signing.signers import is_clean

_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
_DENIED = {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO}


@dataclass(frozen=True, slots=True)
class FileState:
    """Distinguishes one content of a file from the next."""

    size: int
    modified_ns: int
    inode: int

    @property
    def etag(self) -> str:
        return f'"{self.inode:x}-{self.size:x}-{self.modified_ns:x}"'

    @property
    def last_modified(self) -> str:
        return formatdate(self.modified_ns // 1_000_000_000, usegmt=True)


class OpenFile:
    """A file and its state when it was opened. `close` waits for a `read` in another thread."""

    def __init__(self, descriptor: int, path: str, state: FileState) -> None:
        self.path, self.state = path, state
        self._file = FileIO(descriptor)  # closes the file even if the waiting task was cancelled
        self._lock = Lock()

    def read(self, start: int, length: int) -> bytes:
        """Read exactly this range. Raises `StorageError` if the file has changed since it was opened."""
        with self._lock:
            try:
                data = _read_whole(self._file.fileno(), start, length)
                state = _state(os.fstat(self._file.fileno()))
            except OSError as error:
                raise StorageError(f"the file cannot be read: {error.strerror}", path=self.path) from error
        if state != self.state or len(data) != length:
            raise StorageError("the file changed while it was read", path=self.path)
        return data

    def close(self) -> None:
        with self._lock:
            self._file.close()


def open_file(root: str, relative: str) -> OpenFile:
    """Open the regular file at a clean path below `root`.

    Raises `MissingFileError`; `AccessDeniedError` if it is not a regular file, or links lead out of the root;
    `StorageError` if the disk fails.
    """
    path = f"{root}/{relative}"
    if not is_clean(relative) or "\0" in relative:
        raise AccessDeniedError("the path leads outside its directory", path=repr(path))
    try:
        descriptor, real_path = open_within([root], path)
        status = os.fstat(descriptor)
    except StorageError:
        raise
    except OSError as error:
        raise _translated(error, path) from error
    if not S_ISREG(status.st_mode):
        os.close(descriptor)
        raise AccessDeniedError("this is not a regular file", path=path)
    return OpenFile(descriptor, real_path, _state(status))


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_mtime_ns, status.st_ino)


def _read_whole(descriptor: int, start: int, length: int) -> bytes:
    """Returns fewer bytes only at the end of the file."""
    data = os.pread(descriptor, length, start)
    while len(data) < length and (more := os.pread(descriptor, length - len(data), start + len(data))):
        data += more
    return data


def _translated(error: OSError, path: str) -> StorageError | MissingFileError:
    if error.errno in _MISSING:
        return MissingFileError("the file does not exist", path=path)
    if error.errno in _DENIED:
        return AccessDeniedError(f"the file cannot be opened: {error.strerror}", path=path)
    return StorageError(f"the file cannot be opened: {error.strerror}", path=path)


# Possessive: with backtracking, a header of blanks would take quadratic time.
_RANGE = re.compile(r"\s*+bytes\s*+=\s*+([0-9]*+)\s*+-\s*+([0-9]*+)\s*+", re.ASCII | re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?("[^"]*")')
_LONGEST_NUMBER = 18


@dataclass(frozen=True, slots=True)
class Part:
    """The response: 200 with the whole file, 206 with a range, or 304 without a body."""

    status: int
    start: int = 0
    length: int = 0


def requested_part(scope: Scope, state: FileState) -> Part:
    """Raises `Refusal` (412, 416)."""
    matching = header(scope, b"if-match")
    if matching is not None and not _names(matching, state, weakly=False):
        raise Refusal("the file has changed: read it from the start", status=412, code="PRECONDITION_FAILED")
    known = header(scope, b"if-none-match")
    if known is not None and _names(known, state, weakly=True):
        return Part(304)
    wanted = header(scope, b"range")
    if wanted is None or scope["method"] != "GET" or not _holds(header(scope, b"if-range"), state):
        return Part(200, 0, state.size)
    return _ranged(wanted, state.size)


def _names(tags: str, state: FileState, *, weakly: bool) -> bool:
    """Whether a list of entity tags contains the file's."""
    if tags.strip() == "*":
        return True
    return any(tag[1] == state.etag for tag in _TAG.finditer(tags) if weakly or not tag[0].startswith("W/"))


def _holds(if_range: str | None, state: FileState) -> bool:
    return if_range is None or if_range.strip() in (state.etag, state.last_modified)


def _ranged(wanted: str, size: int) -> Part:
    """Invalid and multiple ranges are ignored; a range that starts past the end is refused."""
    found = _RANGE.fullmatch(wanted)
    if not found or max(map(len, found.groups())) > _LONGEST_NUMBER or not any(found.groups()):
        return Part(200, 0, size)
    first, last = found.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if first and last and int(last) < start:
        return Part(200, 0, size)
    if start >= size:
        raise _unsatisfiable(size)
    return Part(206, start, end - start)


def _unsatisfiable(size: int) -> Refusal:
    return Refusal(
        f"the file has only {size} bytes: the range starts after its end",
        status=416,
        code="INVALID_PARAMETER_VALUE",
        headers=((b"content-range", f"bytes */{size}".encode()),),
    )


_log = logging.getLogger(__name__)

_PATH_SEND = "http.response.pathsend"
_CHUNK_SIZE = 1 << 20
"""Bytes per read and write; a client must take this much within the write timeout."""


class FilesApp:
    """An ASGI application at `{endpoint}/files`.

    The URL is the only credential. It works while its recipient may read the table, and only from the recipient's
    allowed addresses. `now` returns seconds since the epoch.
    """

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        key: bytes,
        *,
        endpoint: str,
        threads: int = 32,
        stall_seconds: float = 60,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._catalog, self._now = catalog, now
        self._urls = FileUrls(key, endpoint)
        self._pool, self._stall = BlockingPool("files", threads), stall_seconds

    def close(self) -> None:
        self._pool.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            root, url = self._granted(scope)
            lane = self._pool.lane(root, url.recipient_id)
            file = await lane.run(_opened, root, url.path)
        except SharingError as error:
            await _refuse(error, scope, receive, send)
            return
        try:
            await self._answer(file, lane, scope, receive, send)
        finally:
            await lane.run(file.close)

    def _granted(self, scope: Scope) -> tuple[str, FileUrl]:
        """The directory, and the URL of a file below it that the request may read. Raises `SharingError` (403, 404,
        405)."""
        record = _record(scope)
        if record:
            record.operation = "file"
        if scope["method"] not in ("GET", "HEAD"):
            raise Refusal(
                "files are read-only", status=405, code="METHOD_NOT_ALLOWED", headers=((b"allow", b"GET, HEAD"),)
            )
        url, catalog = self._signed(scope), self._catalog()
        table, recipient = catalog.table_by_id(url.table_id), catalog.recipient_by_id(url.recipient_id)
        if record:
            record.asked, record.table, record.recipient = url.table_id, table, recipient
        if url.expires < self._now():
            raise _denied("the URL has expired: query the table again for a new one")
        if recipient is None or not catalog.has_access(recipient, int(self._now() * 1000)):
            raise _denied("the recipient of this URL no longer has access: ask the provider of the share")
        check_address(recipient, record.address if record else (scope.get("client") or ("",))[0])
        roots = [root for root in table_roots(table) if self._urls.fingerprint(root) == url.location] if table else []
        if table is None or not roots:
            raise not_found("the table of this file is no longer shared, or was moved")
        catalog.view(recipient).table(table.share, table.schema, table.name)
        return roots[0], url

    def _signed(self, scope: Scope) -> FileUrl:
        raw_path = scope["raw_path"].decode("latin-1").removeprefix(scope.get("root_path", ""))
        url = self._urls.parse(raw_path.removeprefix(self._urls.prefix), scope["query_string"].decode("latin-1"))
        if url is not None and (record := _record(scope)):
            record.asked = url.table_id  # refusals are audited too
        if url is None or not self._urls.is_signed(url):
            _log.warning("rejected a URL that this server did not sign")
            raise _denied("this server did not sign the URL: query the table for a new one")
        return url

    async def _answer(self, file: OpenFile, lane: Lane, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            part = requested_part(scope, file.state)
        except SharingError as error:
            await _refuse(error, scope, receive, send)
            return
        record = _record(scope)
        await send({"type": "http.response.start", "status": part.status, "headers": _headers(part, file.state)})
        if scope["method"] == "HEAD" or part.status == 304:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif part.status == 200 and _PATH_SEND in (scope.get("extensions") or {}):
            await send({"type": _PATH_SEND, "path": file.path})
            if record:
                record.files, record.bytes = 1, part.length
        else:
            broken = await self._send(file, part, lane, scope, receive, send)
            if record:
                record.files, record.bytes, record.error = 1, record.sent, broken

    async def _send(
        self, file: OpenFile, part: Part, lane: Lane, scope: Scope, receive: Receive, send: Send
    ) -> str | None:
        """Send the body after its headers. If that fails, return the reason and leave the response incomplete, so that
        the server aborts the connection and the client notices."""
        gone = asyncio.create_task(disconnection(receive))
        start, end = part.start, part.start + part.length
        try:
            while not gone.done():
                chunk = await lane.run(file.read, start, min(_CHUNK_SIZE, end - start))
                start += len(chunk)
                async with asyncio.timeout(self._stall):
                    await send({"type": "http.response.body", "body": chunk, "more_body": start < end})
                if start == end:
                    return None
            return "the client disconnected"
        except StorageError as error:
            _log.error("aborted a transfer: %s", error)
            return "the file could not be read to its end"
        except TimeoutError:
            _log.warning("disconnected a client that read nothing for %g s [%s]", self._stall, file.path)
            abort(scope)
            return "the client stopped reading"
        finally:
            gone.cancel()


def _opened(root: str, path: str) -> OpenFile:
    """Open the file; hide the reason for a failure from the recipient."""
    try:
        return open_file(root, path)
    except (MissingFileError, AccessDeniedError) as error:
        _log.warning("cannot serve a signed file: %s", error)
        raise not_found("the file is missing, or the server has no access to it: query the table again") from error
    except StorageError as error:
        _log.error("cannot serve a signed file: %s", error)
        raise unavailable("the storage of the table does not respond: try again later") from error


def _headers(part: Part, state: FileState) -> list[Header]:
    fields = {"etag": state.etag, "last-modified": state.last_modified, "cache-control": "private, no-transform"}
    if part.status != 304:
        fields |= {"accept-ranges": "bytes", "content-length": str(part.length)}
        fields |= {"content-type": "application/octet-stream", "x-content-type-options": "nosniff"}
    if part.status == 206:
        fields["content-range"] = f"bytes {part.start}-{part.start + part.length - 1}/{state.size}"
    return [(name.encode(), value.encode()) for name, value in fields.items()]


async def _refuse(error: SharingError, scope: Scope, receive: Receive, send: Send) -> None:
    if record := _record(scope):
        record.error = str(error)
    await error_reply(error)(scope, receive, send)


def _record(scope: Scope) -> RequestRecord | None:
    """The record of the request, if one is kept."""
    record: RequestRecord | None = scope.get("state", {}).get("record")
    return record


def _denied(message: str) -> SharingError:
    return SharingError(message, status=403, code="PERMISSION_DENIED")
