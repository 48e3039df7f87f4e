"""HTTP for all of a recipient's requests, to sharing servers and to the storage behind their URLs."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Self, TypeVar

from lakeport.client.http.answer import HttpAnswer
from lakeport.client.http.connections import ConnectionOptions, Connections, origin_of
from lakeport.client.http.ranges import DataUrlRefused, Range, receive_range
from lakeport.client.http.refusals import refusal
from lakeport.client.http.retrying import TRANSIENT_STATUSES, Attempts, RetryOptions, Timing, parse_retry_after
from lakeport.errors import SharingError, StorageError, UnavailableError
from lakeport.version import __version__

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
            raise StorageError(str(error), path=_spoken(url)) from error
        return wanted.content()

    def _get_more(self, url: str, wanted: Range, attempts: Attempts) -> None:
        before = wanted.missing
        try:
            with self._open("GET", url, wanted.headers()) as answer:
                receive_range(answer, wanted, _spoken(url))
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


def _spoken(url: str) -> str:
    """The URL without potential secrets: only its host."""
    try:
        origin = origin_of(url)
    except SharingError:
        return "…"
    return f"{origin.scheme}://{origin}/…"


@cache
def _open_once(options: HttpOptions) -> HttpPool:
    return HttpPool(options)
