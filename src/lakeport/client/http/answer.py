"""A streamed HTTP response whose body never ends early without an error."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Self

from urllib3 import BaseHTTPResponse, HTTPHeaderDict

from lakeport.client.http.limits import JSON_BYTES, check_unpacked, limited
from lakeport.client.http.retrying import HTTP_ERRORS, connection_error
from lakeport.errors import SharingError, UnavailableError

_CHUNK = 256 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class HttpAnswer:
    """The status, headers and body of a response. Close it, with a `with` block, to release its connection."""

    def __init__(self, response: BaseHTTPResponse, server: str) -> None:
        self._response = response
        self.server = server
        """The responding host, for messages."""

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> HTTPHeaderDict:
        """Case-insensitive."""
        return self._response.headers

    @property
    def tells_its_length(self) -> bool:
        """Whether truncation can be detected. Without a length, the body ends where the connection does."""
        return "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connection; close it if the body was not read to the end, because it cannot be reused."""
        if self._response.length_remaining == 0:
            self._response.read()  # nothing is left, but the response notices only now
        if not self._response.closed:
            self._response.close()
        self._response.release_conn()

    def read(self, about: str = "the request", most: int = JSON_BYTES) -> bytes:
        """The body. Raises the errors of `stream`, and `SharingError` if it exceeds `most` bytes."""
        return b"".join(limited(self.stream(), most, self.server, about))

    def beginning(self, most: int) -> bytes:
        """The first `most` bytes of the body. Raises the errors of `stream`."""
        first = bytearray()
        for piece in self.stream():
            first += piece[: most - len(first)]
            if len(first) == most:
                break
        return bytes(first)

    def stream(self) -> Iterator[bytes]:
        """The decompressed body in small pieces. Raises `UnavailableError` if it breaks off or stalls, and
        `SharingError` if it decompresses to far more than was sent."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("identity", ""):
            return self.raw()
        if encoding in ("gzip", "x-gzip"):
            return self._unpacked()
        raise SharingError(
            f"{self.server} responded in the encoding {encoding[:30]!r}, which was not requested",
            status=self.status,
            code="INVALID_ANSWER",
        )

    def raw(self) -> Iterator[bytes]:
        """The raw body in pieces. Raises the errors of `stream`."""
        try:
            yield from self._response.stream(_CHUNK, decode_content=False)
        except HTTP_ERRORS as error:
            raise connection_error(error, self.server) from error

    def take(self, size: int) -> bytes:
        """The next raw bytes of the body, fewer only at its end. Raises the errors of `stream`."""
        try:
            return self._response.read(size, decode_content=False)
        except HTTP_ERRORS as error:
            raise connection_error(error, self.server) from error

    def _unpacked(self) -> Iterator[bytes]:
        unpacking = zlib.decompressobj(_GZIP)
        packed = unpacked = 0
        try:
            for piece in self.raw():
                rest, packed = piece, packed + len(piece)
                while rest:
                    if unpacking.eof:  # another gzip member
                        unpacking = zlib.decompressobj(_GZIP)
                    part = unpacking.decompress(rest, _CHUNK)
                    unpacked += len(part)
                    check_unpacked(packed, unpacked, self.server)
                    yield part
                    rest = unpacking.unconsumed_tail or unpacking.unused_data
        except zlib.error as error:
            raise UnavailableError(
                f"{self.server} sent a body that cannot be decompressed", status=0, code="CONNECTION_FAILED"
            ) from error
        if not unpacking.eof:
            raise UnavailableError(f"{self.server} sent a truncated response", status=0, code="CONNECTION_FAILED")
