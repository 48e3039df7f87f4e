"""HTTP for all of a recipient's requests, to sharing servers and to the storage behind their URLs."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Self, TypeVar

from lakeport.client.http.answer import HttpAnswer
from lakeport.client.http.connections import ConnectionOptions, Connections, origin_of
from lakeport.client.http.error_responses import refusal
from lakeport.client.http.retrying import TRANSIENT_STATUSES, Attempts, RetryOptions, Timing, parse_retry_after
from lakeport.errors import SharingError, StorageError, UnavailableError
from lakeport.version import __version__

_REFUSED = frozenset({400, 401, 403, 404, 410})
"""Statuses for an expired URL, which vary by storage; 400 is that of S3 and GCS for an expired token."""
_PIECE = 256 * 1024
"""The most that is lost when a body breaks off."""
_CONTENT_RANGE = re.compile(r"\s*bytes\s+(\d{1,18})-(\d{1,18})/(\d{1,18}|\*)\s*", re.IGNORECASE | re.ASCII)


class DataUrlRefused(Exception):  # noqa: N818  # not an error to people: the caller takes a new URL
    """Storage does not, or no longer, accept the URL."""

    def __init__(self, status: int) -> None:
        super().__init__(f"storage rejected the URL of a file with status {status}")
        self.status = status


@dataclass(slots=True)
class Range:
    """The wanted bytes of a file, and those already received."""

    start: int
    length: int
    _pieces: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.start < 0 or self.length < 0:
            raise ValueError(f"invalid range: {self.length} bytes from {self.start}")

    @property
    def missing(self) -> int:
        return self.end - self.position

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def position(self) -> int:
        """The first missing byte."""
        return self.start + sum(map(len, self._pieces))

    def headers(self) -> dict[str, str]:
        """Request the missing bytes."""
        return {"range": f"bytes={self.position}-{self.end - 1}", "accept-encoding": "identity"}

    def add(self, piece: bytes) -> None:
        assert len(piece) <= self.missing
        self._pieces.append(piece)

    def content(self) -> bytes:
        assert self.missing == 0
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def receive_range(answer: HttpAnswer, wanted: Range, path: str) -> None:
    """Receive missing bytes from the response; some may remain if the server sends less at a time. Raises
    `DataUrlRefused`, `UnavailableError` and `StorageError`."""
    if answer.status in _REFUSED:
        raise DataUrlRefused(answer.status)
    if answer.headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
        raise StorageError("storage sent the file in an unexpected encoding", path=path)
    match answer.status:
        case 206:
            _take(answer, wanted, _sent(answer, wanted, path))
        case 200:
            _skip(answer, wanted, path)
            _take(answer, wanted, wanted.missing)
        case 416:
            raise _too_short(wanted, answer.headers.get("content-range"), path)
        case status:
            raise StorageError(f"storage responded with status {status}", path=path)


def _sent(answer: HttpAnswer, wanted: Range, path: str) -> int:
    """How many of the missing bytes the response has: all, unless its `Content-Range` says otherwise."""
    text = answer.headers.get("content-range")
    match = _CONTENT_RANGE.fullmatch(text or "")
    if match is None:
        raise StorageError("storage did not say which bytes of the file it sent", path=path)
    first, last = int(match[1]), int(match[2])
    if first != wanted.position or last < first:
        raise StorageError(
            f"storage sent bytes {first} to {last}, but the request began at byte {wanted.position}", path=path
        )
    if match[3] != "*" and int(match[3]) < wanted.end:
        raise _too_short(wanted, text, path)
    return min(last + 1 - first, wanted.missing)


def _skip(answer: HttpAnswer, wanted: Range, path: str) -> None:
    """Skip what precedes the missing bytes in the whole file."""
    length = answer.headers.get("content-length", "")
    if length.isdigit() and int(length) < wanted.end:
        raise _too_short(wanted, f"{length} bytes", path)
    before = wanted.position
    while before:
        piece = answer.take(min(before, _PIECE))
        if not piece:
            raise _broken_off(answer)
        before -= len(piece)


def _take(answer: HttpAnswer, wanted: Range, size: int) -> None:
    while size:
        piece = answer.take(min(size, _PIECE))
        if not piece:
            raise _broken_off(answer)
        wanted.add(piece)
        size -= len(piece)


def _broken_off(answer: HttpAnswer) -> UnavailableError:
    return UnavailableError(f"{answer.server} closed the connection within a file", status=0, code="CONNECTION_FAILED")


def _too_short(wanted: Range, said: str | None, path: str) -> StorageError:
    return StorageError(f"the file ends before byte {wanted.end} ({said or 'no length given'})", path=path)


__all__ = ["DataUrlRefused", "HttpAnswer", "HttpOptions", "HttpPool"]

T = TypeVar("T")

USER_AGENT = f"Lakeport/{__version__} Python/{platform.python_version()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    connections: ConnectionOptions = field(default_factory=ConnectionOptions)
    retries: RetryOptions = field(default_factory=RetryOptions)
    user_agent: str = USER_AGENT


class HttpPool:
    """Requests over pooled connections; transient failures are retried. Thread-safe."""

    def __init__(self, options: HttpOptions = HttpOptions(), *, timing: Timing = Timing()) -> None:  # noqa: B008  # frozen
        self.options = options
        self._connections = Connections(options.connections)
        self.timing = timing

    def __reduce__(self) -> tuple[Callable[[HttpOptions], HttpPool], tuple[HttpOptions]]:
        """Pickled as its options; a process opens one pool for equal options."""
        return _open_once, (self.options,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        self._connections.close()

    def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> HttpAnswer:
        """The response, with its body unread. Its status can be any that a retry would not change.

        Raises `UnavailableError` once all attempts have failed, and `SharingError` for an invalid request."""
        return self.receive(method, url, lambda answer: answer, headers=headers, body=body)

    def receive(
        self,
        method: str,
        url: str,
        read: Callable[[HttpAnswer], T],
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        about: str = "",
    ) -> T:
        """`read` of the response; called again with a new response if the body breaks off. Raises the errors of
        `request`, which mention `about`, and those of `read`."""
        attempts = self._attempts()
        while True:
            try:
                answer = self._open(method, url, {"accept-encoding": "gzip", **(headers or {})}, body, about)
                try:
                    return read(answer)
                except BaseException:
                    answer.close()
                    raise
            except UnavailableError as error:
                attempts.wait(error)

    def get_range(self, url: str, start: int, length: int) -> bytes:
        """Exactly these bytes of a file. Resumes a truncated body where it stopped.

        Raises `DataUrlRefused` if the URL is not, or no longer, valid for the file, and `StorageError` otherwise."""
        wanted = Range(start, length)
        attempts = self._attempts()
        try:
            while wanted.missing:
                self._get_more(url, wanted, attempts)
        except SharingError as error:
            raise StorageError(str(error), path=_without_secrets(url)) from error
        return wanted.content()

    def _get_more(self, url: str, wanted: Range, attempts: Attempts) -> None:
        before = wanted.missing
        try:
            with self._open("GET", url, wanted.headers()) as answer:
                receive_range(answer, wanted, _without_secrets(url))
        except UnavailableError as error:
            if wanted.missing < before:
                attempts.restart()
            attempts.wait(error)

    def _attempts(self) -> Attempts:
        return Attempts(self.options.retries, self.timing)

    def _open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None, about: str = ""
    ) -> HttpAnswer:
        answer = self._connections.open(method, url, {"user-agent": self.options.user_agent, **headers}, body)
        if answer.status not in TRANSIENT_STATUSES:
            return answer
        with answer:
            problem = refusal(answer, about)
        wait = parse_retry_after(answer.headers.get("retry-after"))
        raise UnavailableError(str(problem), status=problem.status, code=problem.code, wait_seconds=wait)


def _without_secrets(url: str) -> str:
    """The URL without potential secrets: only its host."""
    try:
        origin = origin_of(url)
    except SharingError:
        return "…"
    return f"{origin.scheme}://{origin}/…"


@cache
def _open_once(options: HttpOptions) -> HttpPool:
    return HttpPool(options)
