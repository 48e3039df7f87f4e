"""Files in an object store, signed with the store's own credentials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lakeport.engine.storage.failures import store_errors
from lakeport.engine.storage.signing import SIGNED_FOR_AZURE, sign_keys
from lakeport.errors import SharingError
from lakeport.locations import store_root
from lakeport.server.signing.azure import BlobPlace, account_key, container_url
from lakeport.server.signing.table_signer import Place

if TYPE_CHECKING:
    from obstore import SignCapableStore


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
    """A prefix in an Azure container without the account key: see `lakeport.server.signing.azure`."""

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


def object_place(root: str, store: SignCapableStore, seconds: int, now: Callable[[], float]) -> Place:
    from obstore.store import AzureStore

    objects = ObjectPlace(root, store, timedelta(seconds=seconds))
    if not isinstance(store, AzureStore):
        return objects
    if key := account_key(store):
        return BlobPlace(root, *container_url(store), key, seconds, now)
    return IdentityBlobPlace(root, objects)
