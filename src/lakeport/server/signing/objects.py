"""Files in an object store, signed with the store's own credentials.

For Azure blobs, obstore signs the path as encoded in the URL, but Azure checks the decoded name, and so refuses the
signature of any name that needs percent-encoding. Where the account key is known, the signature (a service SAS) is
therefore made here.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakeport.engine.storage.failures import store_errors
from lakeport.engine.storage.signing import SIGNED_FOR_AZURE, sign_keys
from lakeport.errors import SharingError
from lakeport.locations import store_root
from lakeport.server.credentials.azure import PREFIXES
from lakeport.server.credentials.cloud_vendor import StoreOptions

if TYPE_CHECKING:
    from obstore import SignCapableStore
    from obstore.store import AzureStore

_VERSION = "2023-11-03"
_PLAIN = "/="


@dataclass(frozen=True, slots=True)
class AccountKey:
    account: str
    key: bytes


def account_key(store: AzureStore) -> AccountKey | None:
    """The store's account key; None if it uses an identity instead."""
    options = StoreOptions({**store.config}, PREFIXES)
    key, account = options.get("account_key", "access_key", "master_key"), options.get("account_name")
    return AccountKey(account, b64decode(key)) if key and account else None


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """A prefix in a container. `url` is the container's."""

    root: str
    url: str
    container: str
    key: AccountKey
    seconds: int
    now: Callable[[], float]

    def sign(self, relative: Sequence[str]) -> list[str]:
        prefix = f"{self.root}/"[len(store_root(self.root)) + 1 :]
        expiry = f"{datetime.fromtimestamp(int(self.now()) + self.seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
        # Section "Version 2020-12-06 and later" of Azure's "Create a service SAS": unused fields stay empty.
        before = f"r\n\n{expiry}\n/blob/{self.key.account}/{self.container}/{prefix}"
        after = f"\n\n\n\n{_VERSION}\nb\n\n\n\n\n\n\n"
        head = f"{self.url}/{quote(prefix, _PLAIN)}"
        tail = f"?sv={_VERSION}&se={quote(expiry, '')}&sr=b&sp=r&sig="
        key = self.key.key
        return [f"{head}{quote(path, _PLAIN)}{tail}{_signature(key, f'{before}{path}{after}')}" for path in relative]


def _signature(key: bytes, text: str) -> str:
    return quote(b64encode(hmac.digest(key, text.encode(), "sha256")), "")


def container_url(store: AzureStore) -> tuple[str, str]:
    """The URL of the store's container, for any endpoint, and its name."""
    from obstore import sign

    url = sign(store, "GET", "x", timedelta(seconds=1)).partition("?")[0].removesuffix("/x")
    return url, url.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A prefix in a bucket or container."""

    root: str
    store: SignCapableStore
    lifetime: timedelta

    def sign(self, relative: Sequence[str]) -> list[str]:
        prefix = f"{self.root}/"[len(store_root(self.root)) + 1 :]
        with store_errors(self.root):
            return sign_keys(self.store, [prefix + path for path in relative], self.lifetime)


@dataclass(frozen=True, slots=True)
class IdentityBlobPlace:
    """A prefix in an Azure container without the account key: see `lakeport.server.signing.objects`."""

    root: str
    objects: ObjectPlace

    def sign(self, relative: Sequence[str]) -> list[str]:
        """Raises `SharingError` (400) for names whose signature Azure would refuse."""
        if not all(map(SIGNED_FOR_AZURE.fullmatch, [self.root, *relative])):
            raise SharingError(
                "the table has files whose names an Azure identity cannot sign; "
                "ask its provider to configure account_key for the storage",
                status=400,
                code="UNSUPPORTED_OPERATION",
            )
        return self.objects.sign(relative)


def object_place(
    root: str, store: SignCapableStore, seconds: int, now: Callable[[], float]
) -> ObjectPlace | BlobPlace | IdentityBlobPlace:
    from obstore.store import AzureStore

    objects = ObjectPlace(root, store, timedelta(seconds=seconds))
    if not isinstance(store, AzureStore):
        return objects
    if key := account_key(store):
        return BlobPlace(root, *container_url(store), key, seconds, now)
    return IdentityBlobPlace(root, objects)
