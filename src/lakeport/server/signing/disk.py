"""Files on a disk: the server's own URLs, which only who has the key can make.

    {public_url}{endpoint}/files/{table id}/{location}/{path below it}?expires=…&recipient=…&X-Amz-Signature=…

The recipient is whom the URL was made for: it ends with that one's access. The location is told by a fingerprint: a URL
ends with the place that it was made for, and is never taken for a file of the same name in another. The signature is
over plain text, for clients spell percent sequences anew; it has the name of S3's, because clients take a URL that has
none of the clouds' names in its query for a path on their own disk.
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
"""Stays as it is in a URL: partitions are full of it."""

_PATH = re.compile(r"/([^/]+)/([0-9a-f]+)/(.+)")
_EXPIRES = re.compile(r"(?:^|&)expires=([0-9]{1,12})(?:&|$)")
_RECIPIENT = re.compile(r"(?:^|&)recipient=([^&]+)(?:&|$)")
_SIGNATURE = re.compile(r"(?:^|&)X-Amz-Signature=([0-9a-f]+)(?:&|$)")


@dataclass(frozen=True, slots=True)
class FileUrl:
    """What a URL says; whether it says the truth, `FileUrls.is_signed` tells."""

    table_id: str
    location: str
    """The fingerprint of one of the table's locations."""
    path: str
    expires: int
    """Seconds since the epoch."""
    recipient_id: str
    signature: str


class FileUrls:
    """Formats and checks URLs under `{endpoint}/files`."""

    def __init__(self, key: bytes, endpoint: str) -> None:
        self._key = key
        self.prefix = f"{endpoint.rstrip('/')}/files"

    def fingerprint(self, root: str) -> str:
        """Stands for a location, and does not tell where it is."""
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
        """A URL's path behind the prefix and its query, both as they were sent; None if they are not of this form."""
        place, expires, signature = _PATH.fullmatch(raw_path), _EXPIRES.search(query), _SIGNATURE.search(query)
        recipient = _RECIPIENT.search(query)
        if not (place and expires and recipient and signature):
            return None
        table_id, location, path = unquote(place[1]), place[2], unquote(place[3])
        return FileUrl(table_id, location, path, int(expires[1]), unquote(recipient[1]), signature[1])

    def is_signed(self, url: FileUrl) -> bool:
        """Whether this key signed the URL. The comparison takes a constant time."""
        context = _context(url.table_id, url.location, url.expires, url.recipient_id)
        right = _signature(self._key, context, url.path)
        return hmac.compare_digest(right, url.signature)


def _context(table_id: str, location: str, expires: int, recipient_id: str) -> bytes:
    return f"file url\0{expires}\0{location}\0{table_id}\0{recipient_id}\0".encode()


def _signature(key: bytes, context: bytes, path: str) -> str:
    return hmac.digest(key, context + path.encode(), "sha256")[:_SIGNATURE_BYTES].hex()


@dataclass(frozen=True, slots=True)
class DiskPlace:
    """A directory of this machine, or one that it has mounted."""

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
