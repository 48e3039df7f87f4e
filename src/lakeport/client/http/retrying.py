"""Which failures are transient, and how long to wait before a retry."""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import urllib3
from urllib3 import exceptions

from lakeport.errors import SharingError, UnavailableError

TRANSIENT_STATUSES = frozenset({408, 429} | set(range(500, 600)) - {501, 505})
"""Statuses after which a retry may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """Retry a request up to `retries` times, within `total_seconds` of its start or of its last received byte.

    Each wait is random, so that clients do not all retry at once, and never shorter than the server asked for. Its
    maximum doubles from `first_wait_seconds` to `longest_wait_seconds`."""

    retries: int = 8
    total_seconds: float = 300.0
    first_wait_seconds: float = 0.2
    longest_wait_seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The clock (in seconds), the sleep, and the random source (0 to 1) for waits."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


class Attempts:
    """The attempts of one request."""

    def __init__(self, options: RetryOptions, timing: Timing) -> None:
        self._options, self._timing = options, timing
        self.restart()

    def restart(self) -> None:
        """Forget earlier failures after progress."""
        self._began, self._failed = self._timing.clock(), 0

    def wait(self, error: UnavailableError) -> None:
        """Wait before the next attempt. Raises the error, with the attempts made, if there is none left."""
        if error.code == UNREACHABLE:
            raise error
        self._failed += 1
        seconds = max(self._backoff(), error.wait_seconds)
        passed = self._timing.clock() - self._began
        if self._failed > self._options.retries or passed + seconds > self._options.total_seconds:
            raise self._given_up(error, passed) from error
        self._timing.sleep(seconds)

    def _backoff(self) -> float:
        doubled = self._options.first_wait_seconds * 2.0 ** min(self._failed - 1, 64)
        return self._timing.chance() * min(doubled, self._options.longest_wait_seconds)

    def _given_up(self, error: UnavailableError, passed: float) -> UnavailableError:
        tries = "1 attempt" if self._failed == 1 else f"{self._failed} attempts"
        asked = f", and the server asks to wait {error.wait_seconds:g} s" if error.wait_seconds else ""
        return UnavailableError(
            f"{error}; gave up after {tries} in {passed:.1f} s{asked}; try again later",
            status=error.status,
            code=error.code,
            wait_seconds=error.wait_seconds,
        )


UNREACHABLE = "UNREACHABLE"
"""The code of an `UnavailableError` that is not retried: a server that never responded, at an address where nothing
listens or that does not exist, is more likely misspelled than restarting."""


def connection_error(error: Exception, server: str, *, answered_before: bool = True) -> SharingError:
    """Convert a connection failure, or a failure within a response body: an `UnavailableError` if it is transient. The
    message omits URLs, which may be signed."""
    reason = _unreachable(error, server)
    if reason is not None:
        return UnavailableError(reason, status=0, code="CONNECTION_FAILED" if answered_before else UNREACHABLE)
    match error:
        case exceptions.SSLError() if _is_certificate_problem(error):
            return SharingError(
                f"the certificate of {server} is not trusted ({_certificate_reason(error)}); if it is signed by your "
                "own certificate authority, pass the certificate of that authority",
                status=0,
                code="UNTRUSTED_CERTIFICATE",
            )
        case exceptions.LocationValueError():
            return SharingError(f"the URL of {server} is not valid", status=0, code="INVALID_URL")
        case exceptions.NameResolutionError():
            reason = f"the name of {server} cannot be resolved"
        case exceptions.NewConnectionError():  # in urllib3, a subclass of `ConnectTimeoutError`
            reason = f"{server} cannot be reached: {_cause(error, OSError) or 'the connection failed'}"
        case exceptions.ConnectTimeoutError():
            reason = f"{server} cannot be reached: the connection timed out"
        case exceptions.ProxyError():
            reason = f"the proxy for {server} cannot be reached"
        case exceptions.ReadTimeoutError():
            reason = f"{server} stopped responding"
        case _:
            reason = f"the connection to {server} was lost"
    return UnavailableError(reason, status=0, code="CONNECTION_FAILED")


def _unreachable(error: Exception, server: str) -> str | None:
    """Why nothing can be at the address; None if something may be."""
    proxy = "the proxy for " if isinstance(error, exceptions.ProxyError) else ""
    if _cause(error, ConnectionRefusedError):
        return f"connection refused: nothing is listening at {proxy}{server}; check the address"
    unknown = _cause(error, socket.gaierror)
    if isinstance(unknown, socket.gaierror) and unknown.errno == socket.EAI_NONAME:
        return f"the name of {proxy}{server} does not exist; check the address"
    return None


def _cause(error: BaseException | None, kind: type[OSError]) -> OSError | None:
    """The operating system's error behind one of urllib3's."""
    while error is not None:
        if isinstance(error, kind):
            return error
        inner = [part for part in error.args if isinstance(part, Exception)]
        error = error.__cause__ or (inner[0] if inner else None)
    return None


def _is_certificate_problem(error: Exception) -> bool:
    return any(isinstance(part, ssl.SSLCertVerificationError) for part in (*error.args, error.__cause__))


def _certificate_reason(error: Exception) -> str:
    problems = [part for part in (*error.args, error.__cause__) if isinstance(part, ssl.SSLCertVerificationError)]
    return problems[0].verify_message


def parse_retry_after(text: str | None) -> float:
    """The seconds to wait by `Retry-After`: a number or a date; 0 if invalid."""
    if text is None:
        return 0.0
    if text.strip().isascii() and text.strip().isdigit():
        return float(text.strip()[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


HTTP_ERRORS = (urllib3.exceptions.HTTPError, OSError)
"""The errors that urllib3 raises."""
