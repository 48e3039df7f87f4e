"""What the provider says about credentials: the `temporaryCredentials` of the configuration, and options of storage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from lakeport.errors import CatalogError

_ACCESS_POINT = r"^arn:aws[a-z-]*:s3:[a-z0-9-]+:[0-9]{12}:accesspoint/[a-z0-9-]+$"


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class AwsOptions(_Section, frozen=True):
    role_arn: str | None = None
    """The role that is assumed; without one, the server's own keys are those of a user, who gives federation tokens."""
    external_id: str | None = None
    region: str | None = None
    sts_endpoint: str | None = None
    """By default the endpoint of the storage if it has one of its own (MinIO, Ceph), else that of AWS."""
    kms_key_arn: str | None = None
    """The key that the objects are encrypted with, if it is not one that S3 keeps itself."""
    access_points: dict[str, Annotated[str, msgspec.Meta(pattern=_ACCESS_POINT)]] = {}
    """The ARNs of access points, by the aliases that locations have in place of a bucket's name."""


class AzureOptions(_Section, frozen=True):
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    """Of an application; by default those of the storage, then the account's key, then the identity of the machine."""
    authority_host: str | None = None
    """Of Entra ID, in other clouds than the public one."""
    hierarchical_namespace: bool = True
    """Without it (Data Lake Storage Gen2), Azure signs access to whole containers only, not to directories."""


class GcsOptions(_Section, frozen=True):
    sts_endpoint: str = "https://sts.googleapis.com/v1/token"


class CredentialOptions(_Section, frozen=True):
    aws: AwsOptions = AwsOptions()
    azure: AzureOptions = AzureOptions()
    gcs: GcsOptions = GcsOptions()


def parse_options(options: Mapping[str, Any]) -> CredentialOptions:
    """Raises `CatalogError` for a key that there is not, or a value of the wrong type."""
    try:
        return msgspec.convert(options, CredentialOptions)
    except msgspec.ValidationError as error:
        raise CatalogError(f"temporaryCredentials: {error}; correct it in the configuration") from error


class StoreOptions:
    """Options of an object store by obstore's names, with or without the prefix of the cloud, in any case; what they
    leave out comes from the environment, as obstore reads it."""

    def __init__(self, options: Mapping[str, Any], prefixes: tuple[str, ...]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self._prefixes = prefixes

    def get(self, *names: str) -> str | None:
        """The first of the names that has a value, in the options before the environment."""
        spelled = [prefix + name for name in names for prefix in self._prefixes]
        given = [self._options.get(name) for name in [*spelled, *names]]
        values = [*given, *(os.environ.get(name.upper()) for name in spelled)]
        return next((str(value) for value in values if value), None)
