"""How much a server can make a client hold: answers beyond these limits are refused, not received.

Each is far above what honest servers send, and far below what harms a small machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeport.errors import SharingError

JSON_BYTES = 16 << 20
"""Of one JSON object: a page of a list, credentials, a token. Decoded, it takes some twenty times as much memory."""
METADATA_BYTES = 256 << 20
"""Of the answer about a table's metadata, which is two lines."""
PAGE_BYTES = 32 << 30
"""Of one page of a table's files. It waits on the disk."""
LINE_BYTES = 64 << 20
LIST_ITEMS = 1_000_000
PAGES = 100_000
PAGE_ITEMS = 500
"""Of a list, which a server is asked for: more than the protocol's servers allow is refused by them."""
EMPTY_PAGES = 10_000
"""In a row: a server may go through much that a recipient must not see."""
VERSIONS = 250_000
"""Between the first and the last version of changes: each takes memory, also one without changes."""
FILE_BYTES = 1 << 40
VECTOR_BYTES = 1 << 31

_UNPACKED_BYTES = 16 << 20
_UNPACKED_RATIO = 250
"""By which gzip may shrink what is larger than the bytes above; lines with signed URLs shrink by ten or twenty."""


def limited(chunks: Iterator[bytes], most: int, server: str, about: str) -> Iterator[bytes]:
    """Pass on the pieces of a body of at most so many bytes. Raises `SharingError`."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise too_large(server, about, f"has more than {most:,} bytes")
        yield chunk


def check_unpacked(packed: int, unpacked: int, server: str) -> None:
    """Raises `SharingError` for a body that unpacks to far more than was sent."""
    if unpacked > max(_UNPACKED_BYTES, _UNPACKED_RATIO * packed):
        raise too_large(server, "the request", f"unpacks to more than {_UNPACKED_RATIO} times its size")


def too_large(server: str, about: str, problem: str) -> SharingError:
    return SharingError(
        f"the answer of {server} about {about} {problem}, and is not read; tell the provider",
        status=200,
        code="ANSWER_TOO_LARGE",
    )
