"""What storages state about the content of a file, and how far that can be believed.

Google Cloud Storage keeps a CRC-32C of an object's bytes, and an MD5 unless it was put together from parts. The ETag of
Amazon S3 is an MD5 for an object that was written at once and is not encrypted with a key of the customer's; in
directory buckets it never is. All these are made by the storage from the bytes that it got: they are certain. Of other
storages with the interface of S3, some make ETags in another way, and do not tell. The MD5 of a blob in Azure is what
its writer said: mostly right, but never checked. So such a statement is no proof of damage; but it is reason enough to
fetch a file again, and bytes that come twice are what the storage has.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from lakeport.client.http import HttpAnswer
from lakeport.client.storage import SharedStorage
from lakeport.client.sync.crc32c import Crc32c
from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import StorageClient

_HEX_MD5 = re.compile(r'"?([0-9a-fA-F]{32})"?')
"""A weak ETag, and that of an upload in parts, look otherwise."""
_GOOGLE_HASH = re.compile(r"(md5|crc32c)=([^,\s]+)")
_KEYS_OF_S3 = frozenset({"", "AES256"})
"""No encryption, or one by keys that S3 itself keeps; by others, the ETag is no MD5."""


Kind = Literal["md5", "crc32c"]
_LENGTHS: dict[Kind, int] = {"md5": 16, "crc32c": 4}


class _Checksum(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


@dataclass(frozen=True)
class Stated:
    """A checksum of a whole file."""

    kind: Kind
    digest: bytes
    is_certain: bool
    """Whether nothing but damage makes it differ from that of the bytes."""


def stated_in(status: int, headers: Mapping[str, str]) -> Stated | None:
    """What an answer with bytes of a file states about all of it. Names of headers are in lower case, or have none."""
    if "x-goog-hash" in headers:
        return _hash_of_google(headers)
    if "x-ms-request-id" in headers:
        # Of a range, `Content-MD5` is the range's.
        whole = headers.get("x-ms-blob-content-md5") or (headers.get("content-md5") if status == 200 else None)
        return _stated("md5", whole or "", is_certain=False)
    return _etag_of_s3(headers) if "x-amz-request-id" in headers else None


def _stated(kind: Kind, base64: str, *, is_certain: bool) -> Stated | None:
    try:
        digest = binascii.a2b_base64(base64)
    except (binascii.Error, ValueError):
        return None
    return Stated(kind, digest, is_certain) if len(digest) == _LENGTHS[kind] else None


def _hash_of_google(headers: Mapping[str, str]) -> Stated | None:
    if headers.get("x-goog-stored-content-encoding", "identity") != "identity":
        return None  # it is of bytes that are not those which are sent
    hashes = dict(_GOOGLE_HASH.findall(headers["x-goog-hash"]))
    kinds: tuple[Kind, ...] = ("md5", "crc32c")
    return next((_stated(kind, hashes[kind], is_certain=True) for kind in kinds if kind in hashes), None)


def _etag_of_s3(headers: Mapping[str, str]) -> Stated | None:
    found = _HEX_MD5.fullmatch(headers.get("etag", ""))
    encryption = headers.get("x-amz-server-side-encryption", "")
    if (
        found is None
        or encryption not in _KEYS_OF_S3
        or "x-amz-server-side-encryption-customer-algorithm" in headers
        or headers.get("x-amz-storage-class") == "EXPRESS_ONEZONE"
    ):
        return None
    # Amazon says of every object how it is encrypted; others may leave that out.
    is_certain = headers.get("server") == "AmazonS3" and encryption == "AES256"
    return Stated("md5", bytes.fromhex(found[1]), is_certain)


class Received:
    """The bytes of a file as they come, from its beginning on, and what its storage states about all of them."""

    def __init__(self, source: StorageClient, path: str) -> None:
        self._source, self.path = source, path
        self._checksum: _Checksum | None = None
        self.stated: set[Stated | None] = set()
        """More than one if the file has become another meanwhile."""

    def read(self, start: int, length: int) -> bytes:
        """Bytes that follow those that were read before."""
        if not isinstance(self._source, SharedStorage):
            return self._source.read(self.path, start, length)
        piece = self._source.fetch(self.path, start, length, self._heed)
        if self._checksum is not None:
            self._checksum.update(piece)
        return piece

    def _heed(self, answer: HttpAnswer) -> None:
        stated = stated_in(answer.status, answer.headers)
        if stated is not None and not self.stated:
            self._checksum = Crc32c() if stated.kind == "crc32c" else hashlib.md5(usedforsecurity=False)
        self.stated.add(stated)

    @property
    def digest(self) -> bytes:
        """The checksum of what came, of the kind that was stated; empty if none was from the beginning on."""
        return b"" if self._checksum is None else self._checksum.digest()


class Statements:
    """Compares files with what is stated of them, as long as that has not proved to be something else. Threads can
    share it."""

    def __init__(self) -> None:
        self._believes = True

    def hold(self, received: Received, before: Received | None) -> bool:
        """Whether a file is what its storage states. If not, it is to be fetched again, and given with what came
        `before`. Raises `CorruptTableError` if it is damaged then."""
        if not self._differ(received):
            return True
        if before is None:
            return False
        if received.digest != before.digest or any(one is not None and one.is_certain for one in received.stated):
            raise CorruptTableError(
                "the file is damaged: its bytes are not those of the checksum that its storage states; try again, and "
                "ask the provider if it stays so",
                path=received.path,
            )
        self._believes = False
        return True

    def _differ(self, received: Received) -> bool:
        match list(received.stated):
            case [Stated() as one]:
                return (one.is_certain or self._believes) and one.digest != received.digest
            case several:
                return len(several) > 1 and None not in several
