"""Signed URLs of objects, for readers without credentials."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from lakeport.engine.storage.failures import store_errors
from lakeport.errors import StorageError
from lakeport.freshness import Fresh, renew_at
from lakeport.kernel.engine import StorageClient
from lakeport.locations import Cloud, cloud_of, store_root

if TYPE_CHECKING:
    from obstore import SignCapableStore
    from obstore.store import ObjectStore

SIGNED_FOR_AZURE = re.compile(r"[\w/=.\-+,:;@!$&'()*~]*", re.ASCII)
"""Blob names that obstore signs as Azure verifies them. With other characters, Azure rejects the signature."""
_CLIENT = {"allow_http", "connect_timeout", "http1_only", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host"}
_CLIENT |= {"randomize_addresses", "read_timeout", "timeout", "user_agent"}
"""HTTP client options that are not needed to read an object."""
_NEEDED = ("skip_signature", "sse_customer", "request_payer")
"""Options of stores that do not sign, or whose objects need more than a URL."""
_SECONDS = 3600
"""The lifetime of a URL."""


@dataclass(frozen=True, slots=True)
class SignedUrl:
    """A temporary URL of a file."""

    url: str = field(repr=False)
    expires: int | None = None
    """Milliseconds since the epoch, if known."""


class UrlStorage(Protocol):
    """A storage whose files can be read by URL, without credentials. Thread-safe."""

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        """A URL that is valid for a while, other than the one that was rejected.

        Raises `StorageError`, and `SharingError` if the URLs come from a server."""


def why_not_signed(paths: Sequence[str], storage: StorageClient) -> str | None:
    """Why files in object stores cannot be read by URL; None if they can, and the storage is a `UrlStorage`."""
    if not hasattr(storage, "signed"):
        return "the engine's storage does not sign URLs"
    if any(cloud_of(path) is Cloud.AZURE and not SIGNED_FOR_AZURE.fullmatch(path) for path in paths):
        return "some of its file names cannot be signed for Azure"
    try:
        for path in {store_root(path): path for path in paths}.values():
            storage.signed(path)
    except StorageError:  # the details do not matter: the storage reads it instead
        return "the storage's credentials cannot sign URLs"
    return None


def sign_object(store: ObjectStore, key: str, path: str) -> Fresh[SignedUrl]:
    """Raises `StorageError` if the store does not sign, or if a URL is not enough."""
    from obstore.store import AzureStore, GCSStore, S3Store

    if not isinstance(store, AzureStore | GCSStore | S3Store):
        raise StorageError("this storage cannot sign URLs", path=path)
    config: dict[str, Any] = {**store.config}
    if _is_more_than_urls(config, store) or (isinstance(store, GCSStore) and store.credential_provider is not None):
        raise StorageError("the storage options cannot be combined with signed URLs", path=path)
    now = time.time()
    with store_errors(path):
        [url] = sign_keys(store, [key], timedelta(seconds=_SECONDS))
    return Fresh(SignedUrl(url, int((now + _SECONDS) * 1000)), renew_at(now, now + _SECONDS))


def sign_keys(store: SignCapableStore, keys: Sequence[str], lifetime: timedelta) -> list[str]:
    from obstore import sign
    from obstore.store import GCSStore

    if isinstance(store, GCSStore):  # obstore does not escape these in URLs: even `%2e%2e` would be a step out
        keys = [quote(key, "/~") for key in keys]
    return list(sign(store, "GET", keys, lifetime))


def _is_more_than_urls(config: dict[str, Any], store: Any) -> bool:
    named = any(word in name.lower() for name, value in config.items() if value != "false" for word in _NEEDED)
    return named or not set(store.client_options or {}) <= _CLIENT
