"""Files on disk: the server's own URLs, signed with its key.

    {public_url}{endpoint}/files/{table id}/{location}/{path below it}?expires=…&recipient=…&X-Amz-Signature=…

The URL stops working when its recipient loses access. The location is a fingerprint: a URL stops working when the table
moves, and never matches a file of the same name elsewhere. The signature covers the decoded text, because clients
re-encode percent sequences. It is named as in S3, because clients take a URL without a cloud's query parameter for a
local path.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

_SIGNATURE_BYTES = 16
_FINGERPRINT_BYTES = 6

_PLAIN = "/="
"""Left unencoded in URLs: partition paths are full of them."""

_PATH = re.compile(r"/([^/]+)/([0-9a-f]+)/(.+)")
_EXPIRES = re.compile(r"(?:^|&)expires=([0-9]{1,12})(?:&|$)")
_RECIPIENT = re.compile(r"(?:^|&)recipient=([^&]+)(?:&|$)")
_SIGNATURE = re.compile(r"(?:^|&)X-Amz-Signature=([0-9a-f]+)(?:&|$)")


@dataclass(frozen=True, slots=True)
class FileUrl:
    """A parsed URL; `FileUrls.is_signed` verifies it."""

    table_id: str
    location: str
    """The fingerprint of one of the table's locations."""
    path: str
    expires: int
    """Seconds since the epoch."""
    recipient_id: str
    signature: str


class FileUrls:
    """Formats and verifies URLs under `{endpoint}/files`."""

    def __init__(self, key: bytes, endpoint: str) -> None:
        self._key = key
        self.prefix = f"{endpoint.rstrip('/')}/files"

    def fingerprint(self, root: str) -> str:
        """Identifies a location without revealing it."""
        return hmac.digest(self._key, f"location\0{root}".encode(), "sha256")[:_FINGERPRINT_BYTES].hex()

    def format(
        self, public_url: str, table_id: str, root: str, paths: Sequence[str], expires: int, recipient_id: str
    ) -> list[str]:
        """The URLs of files for a recipient, by their clean paths below `root`."""
        location = self.fingerprint(root)
        head = f"{public_url.rstrip('/')}{self.prefix}/{quote(table_id, safe='')}/{location}/"
        tail = f"?expires={expires}&recipient={quote(recipient_id, safe='')}&X-Amz-Signature="
        key, context = self._key, _context(table_id, location, expires, recipient_id)
        return [f"{head}{quote(path, _PLAIN)}{tail}{_signature(key, context, path)}" for path in paths]

    def parse(self, raw_path: str, query: str) -> FileUrl | None:
        """Parse a URL's path after the prefix, and its query, both as sent; None if they do not have this form."""
        place, expires, signature = _PATH.fullmatch(raw_path), _EXPIRES.search(query), _SIGNATURE.search(query)
        recipient = _RECIPIENT.search(query)
        if not (place and expires and recipient and signature):
            return None
        table_id, location, path = unquote(place[1]), place[2], unquote(place[3])
        return FileUrl(table_id, location, path, int(expires[1]), unquote(recipient[1]), signature[1])

    def is_signed(self, url: FileUrl) -> bool:
        """Whether this key signed the URL. Compares in constant time."""
        context = _context(url.table_id, url.location, url.expires, url.recipient_id)
        right = _signature(self._key, context, url.path)
        return hmac.compare_digest(right, url.signature)


def _context(table_id: str, location: str, expires: int, recipient_id: str) -> bytes:
    return f"file url\0{expires}\0{location}\0{table_id}\0{recipient_id}\0".encode()


def _signature(key: bytes, context: bytes, path: str) -> str:
    return hmac.digest(key, context + path.encode(), "sha256")[:_SIGNATURE_BYTES].hex()


@dataclass(frozen=True, slots=True)
class DiskPlace:
    """A local or mounted directory."""

    root: str
    table_id: str
    urls: FileUrls
    public_url: str
    seconds: int
    now: Callable[[], float]
    recipient_id: str

    def sign(self, relative: Sequence[str]) -> list[str]:
        expires = int(self.now()) + self.seconds
        return self.urls.format(self.public_url, self.table_id, self.root, relative, expires, self.recipient_id)
