"""`CloudVendor`, the interface that each cloud implements to issue temporary credentials, and the settings for it:
`temporaryCredentials` in the configuration, and storage options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import msgspec

from lakeport.errors import CatalogError
from lakeport.locations import Location
from lakeport.sharing.models import AwsTempCredentials, AzureUserDelegationSas, GcpOauthToken

_ACCESS_POINT = r"^arn:aws[a-z-]*:s3:[a-z0-9-]+:[0-9]{12}:accesspoint/[a-z0-9-]+$"


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class AwsOptions(_Section, frozen=True):
    role_arn: str | None = None
    """The role to assume; without one, the server's own keys must be a user's, and get federation tokens."""
    external_id: str | None = None
    region: str | None = None
    sts_endpoint: str | None = None
    """Defaults to the storage's custom endpoint if it has one (MinIO, Ceph), else to AWS."""
    kms_key_arn: str | None = None
    """The key that encrypts the objects, unless S3 manages it."""
    access_points: dict[str, Annotated[str, msgspec.Meta(pattern=_ACCESS_POINT)]] = {}
    """Access point ARNs, by the alias that locations use as the bucket name."""


class AzureOptions(_Section, frozen=True):
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    """Of an application. Defaults to the storage's, then the account key, then the machine's identity."""
    authority_host: str | None = None
    """Of Entra ID, in clouds other than the public one."""
    hierarchical_namespace: bool = True
    """Without it (Data Lake Storage Gen2), Azure can only sign access to whole containers, not directories."""


class GcsOptions(_Section, frozen=True):
    sts_endpoint: str = "https://sts.googleapis.com/v1/token"


class CredentialOptions(_Section, frozen=True):
    aws: AwsOptions = AwsOptions()
    azure: AzureOptions = AzureOptions()
    gcs: GcsOptions = GcsOptions()


def parse_options(options: Mapping[str, Any]) -> CredentialOptions:
    """Raises `CatalogError` for an unknown key or a value of the wrong type."""
    try:
        return msgspec.convert(options, CredentialOptions)
    except msgspec.ValidationError as error:
        raise CatalogError(f"temporaryCredentials: {error}; correct it in the configuration") from error


class StoreOptions:
    """Object store options by obstore's names, with or without the cloud prefix, case-insensitive; missing ones come
    from the environment, as in obstore."""

    def __init__(self, options: Mapping[str, Any], prefixes: tuple[str, ...]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self._prefixes = prefixes

    def get(self, *names: str) -> str | None:
        """The first of the names that has a value; options take precedence over the environment."""
        spelled = [prefix + name for name in names for prefix in self._prefixes]
        given = [self._options.get(name) for name in [*spelled, *names]]
        values = [*given, *(os.environ.get(name.upper()) for name in spelled)]
        return next((str(value) for value in values if value), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A request to a cloud: read everything in `place`, and nothing else."""

    place: Location
    storage: Mapping[str, Any]
    """The options with which the server itself reads there."""
    seconds: int
    """The requested lifetime; a cloud that cannot grant exactly this grants the nearest."""
    now: float
    name: str
    """For the cloud's own audit log: letters, digits and `-`."""


@dataclass(frozen=True, slots=True)
class Granted:
    key: AwsTempCredentials | AzureUserDelegationSas | GcpOauthToken
    expires: float
    """Seconds since the epoch."""


class CloudVendor(Protocol):
    """Blocks; thread-safe.

    Raises `SharingError` if the cloud cannot issue credentials for the place, `ImportError` if its library is not
    installed, and whatever else the library raises.
    """

    def vend(self, grant: Grant) -> Granted: ...
