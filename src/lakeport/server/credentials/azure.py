"""Azure: a shared access signature for one directory, signed with a user delegation key for the server's identity, or
with the account key (a service SAS)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakeport.errors import CatalogError, SharingError
from lakeport.locations import Location
from lakeport.server.credentials.cloud_vendor import AzureOptions, Grant, Granted, StoreOptions
from lakeport.sharing.models import AzureUserDelegationSas

if TYPE_CHECKING:
    from azure.identity import ClientSecretCredential, DefaultAzureCredential
    from azure.storage.filedatalake import UserDelegationKey

PREFIXES = ("azure_storage_", "azure_")
"""Of obstore's option names."""

_LONGEST_SECONDS = 7 * 24 * 3600
"""The longest life of a user delegation key."""

_CLOCK_SKEW = timedelta(minutes=15)
_READ_AND_LIST = "rl"


class AzureVendor:
    """Signs by user delegation, unless the storage is configured with an account key and no application."""

    def __init__(self, options: AzureOptions) -> None:
        self._options = options

    def vend(self, grant: Grant) -> Granted:
        place, storage = grant.place, StoreOptions(grant.storage, PREFIXES)
        if place.segments and not self._options.hierarchical_namespace:
            raise _no_directories()
        if not place.account:
            raise CatalogError(f"container {place.bucket}: set account_name in the storage options")
        endpoint = storage.get("endpoint") or f"https://{place.account}.{place.domain}"
        start = datetime.fromtimestamp(grant.now, UTC)
        # The signature has whole seconds.
        expiry = (start + timedelta(seconds=min(grant.seconds, _LONGEST_SECONDS))).replace(microsecond=0)
        key = self._account_key(storage) or self._delegation_key(endpoint, storage, start, expiry)
        protocol = "https,http" if endpoint.startswith("http://") else "https"
        return Granted(AzureUserDelegationSas(sas_token=_sign(place, key, expiry, protocol)), expiry.timestamp())

    def _account_key(self, storage: StoreOptions) -> str | None:
        """None if the server has its own identity, which is preferred: it can be revoked separately."""
        is_application = self._options.client_secret or storage.get("client_secret")
        return None if is_application else storage.get("account_key", "access_key", "master_key")

    def _delegation_key(
        self, endpoint: str, storage: StoreOptions, start: datetime, expiry: datetime
    ) -> UserDelegationKey:
        from azure.storage.filedatalake import DataLakeServiceClient

        with (
            self._identity(storage) as identity,
            DataLakeServiceClient(
                endpoint, credential=identity, connection_timeout=5, read_timeout=15, retry_total=2
            ) as client,
        ):
            return client.get_user_delegation_key(start - _CLOCK_SKEW, expiry)

    def _identity(self, storage: StoreOptions) -> ClientSecretCredential | DefaultAzureCredential:
        from azure.identity import ClientSecretCredential, DefaultAzureCredential

        tenant = self._options.tenant_id or storage.get("tenant_id", "authority_id")
        client = self._options.client_id or storage.get("client_id")
        secret = self._options.client_secret or storage.get("client_secret")
        host = self._options.authority_host or storage.get("authority_host")
        if tenant and client and secret:
            if host:  # not in Microsoft's list of clouds
                return ClientSecretCredential(tenant, client, secret, authority=host, disable_instance_discovery=True)
            return ClientSecretCredential(tenant, client, secret)
        return DefaultAzureCredential(managed_identity_client_id=client)


def _sign(place: Location, key: str | UserDelegationKey, expiry: datetime, protocol: str) -> str:
    from azure.storage.filedatalake import generate_directory_sas, generate_file_system_sas

    if not place.segments:
        return generate_file_system_sas(
            place.account, place.bucket, key, permission=_READ_AND_LIST, expiry=expiry, protocol=protocol
        )
    directory = "/".join(place.segments)
    return generate_directory_sas(
        place.account, place.bucket, directory, key, permission=_READ_AND_LIST, expiry=expiry, protocol=protocol
    )


def _no_directories() -> SharingError:
    return SharingError(
        "the table's storage account has no hierarchical namespace, so Azure cannot limit credentials to the table's "
        "directory; read it by signed URLs",
        status=400,
        code="UNSUPPORTED_OPERATION",
    )
