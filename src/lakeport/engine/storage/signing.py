"""Signed URLs of objects, for readers without credentials."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakeport.engine.storage.failures import store_errors
from lakeport.errors import StorageError

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


def sign_object(store: ObjectStore, key: str, seconds: int, path: str) -> str:
    """Raises `StorageError` if the store does not sign, or if a URL is not enough."""
    from obstore.store import AzureStore, GCSStore, S3Store

    if not isinstance(store, AzureStore | GCSStore | S3Store):
        raise StorageError("objects of this storage have no signed URLs", path=path)
    config: dict[str, Any] = {**store.config}
    if _is_more_than_urls(config, store) or (isinstance(store, GCSStore) and store.credential_provider is not None):
        raise StorageError("the options of the storage do not go together with signed URLs", path=path)
    with store_errors(path):
        return sign_keys(store, [key], timedelta(seconds=seconds))[0]


def sign_keys(store: SignCapableStore, keys: Sequence[str], lifetime: timedelta) -> list[str]:
    from obstore import sign
    from obstore.store import GCSStore

    if isinstance(store, GCSStore):  # obstore does not escape these in URLs: even `%2e%2e` would be a step out
        keys = [quote(key, "/~") for key in keys]
    return list(sign(store, "GET", keys, lifetime))


def _is_more_than_urls(config: dict[str, Any], store: Any) -> bool:
    named = any(word in name.lower() for name, value in config.items() if value != "false" for word in _NEEDED)
    return named or not set(store.client_options or {}) <= _CLIENT
