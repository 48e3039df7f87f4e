"""Limits on responses, so that no server can exhaust a client: larger ones are rejected, not received.

Each limit is far above what honest servers send, and far below what harms a small machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeport.errors import SharingError

JSON_BYTES = 16 << 20
"""For one JSON object: a list page, credentials, a token. Decoded, it takes about twenty times the memory."""
METADATA_BYTES = 256 << 20
"""For the response about a table's metadata, which has two lines."""
PAGE_BYTES = 32 << 30
"""For one page of a table's files, buffered on disk."""
LINE_BYTES = 64 << 20
LIST_ITEMS = 1_000_000
PAGES = 100_000
PAGE_ITEMS = 500
"""The requested size of a list page: the protocol's servers reject larger ones."""
EMPTY_PAGES = 10_000
"""In a row: a server may skip many items that a recipient must not see."""
VERSIONS = 250_000
"""Between the first and last version of changes: each takes memory, even without changes."""
FILE_BYTES = 1 << 40
VECTOR_BYTES = 1 << 31

_UNPACKED_BYTES = 16 << 20
_UNPACKED_RATIO = 250
"""The highest gzip ratio for bodies above that size; lines with signed URLs compress by a factor of ten or twenty."""


def limited(chunks: Iterator[bytes], most: int, server: str, about: str) -> Iterator[bytes]:
    """Pass on a body of at most `most` bytes. Raises `SharingError`."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise too_large(server, about, f"has more than {most:,} bytes")
        yield chunk


def check_unpacked(packed: int, unpacked: int, server: str) -> None:
    """Raises `SharingError` for a body that decompresses to far more than was sent."""
    if unpacked > max(_UNPACKED_BYTES, _UNPACKED_RATIO * packed):
        raise too_large(server, "the request", f"decompresses to more than {_UNPACKED_RATIO} times its size")


def too_large(server: str, about: str, problem: str) -> SharingError:
    return SharingError(
        f"the response of {server} about {about} {problem}, and was rejected; tell the provider",
        status=200,
        code="ANSWER_TOO_LARGE",
    )
