"""Which recipients get temporary credentials, and for what; the clouds issue them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from lakeport.errors import SharingError
from lakeport.freshness import Fresh, RenewedValues
from lakeport.locations import Cloud, Location, cloud_of, parse_location
from lakeport.server.catalog.model import Table
from lakeport.server.credentials import azure
from lakeport.server.credentials.aws import AwsVendor
from lakeport.server.credentials.azure import AzureVendor
from lakeport.server.credentials.cloud_vendor import CloudVendor, Grant, Granted, StoreOptions, parse_options
from lakeport.server.credentials.gcs import GcsVendor
from lakeport.sharing.models import AwsTempCredentials, AzureUserDelegationSas, Credentials, GcpOauthToken

_log = logging.getLogger(__name__)

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9-]+")
_LONGEST_NAME = 64
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class CredentialVendor:
    """Gives recipients read access to table directories, for `validity_seconds` or what the cloud allows.

    `options` is `temporaryCredentials` from the configuration; `storage_options` are the server's, by obstore's names,
    overridden by a table's own. Credentials are reused while at least half of their lifetime is left. `now` returns
    seconds since the epoch. Raises `CatalogError` for invalid options.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        storage_options: Mapping[str, Any],
        validity_seconds: int = 3600,
        now: Callable[[], float] = time.time,
    ) -> None:
        parsed = parse_options(options)
        self._clouds: dict[Cloud, CloudVendor] = {
            Cloud.AWS: AwsVendor(parsed.aws),
            Cloud.AZURE: AzureVendor(parsed.azure),
            Cloud.GCS: GcsVendor(parsed.gcs),
        }
        self._storage_options, self._validity_seconds, self._now = storage_options, validity_seconds, now
        self._granted: RenewedValues[Granted] = RenewedValues(now)

    def credentials(self, table: Table, location: str | None) -> Credentials:
        """For the table's location, or for `location`: one of the table's, or a directory in it.

        Blocks; concurrent calls for the same credentials share one request. Raises `SharingError`: 400 if they cannot
        be issued, 500 if the cloud fails, which is logged with the reason.
        """
        _check_shared_by_directory(table)
        storage = table.storage_options(self._storage_options)
        place = _allowed_place(table, location, StoreOptions(storage, azure.PREFIXES).get("account_name"))
        key = (table.id, place, tuple(sorted(table.storage.items())))
        granted = self._granted.of(key).current(lambda: self._grant(table, place, storage))
        return Credentials(
            location=table.location if location is None else location,
            expiration_time=int(granted.expires * 1000),
            aws_temp_credentials=granted.key if isinstance(granted.key, AwsTempCredentials) else None,
            azure_user_delegation_sas=granted.key if isinstance(granted.key, AzureUserDelegationSas) else None,
            gcp_oauth_token=granted.key if isinstance(granted.key, GcpOauthToken) else None,
        )

    def _grant(self, table: Table, place: Location, storage: Mapping[str, Any]) -> Fresh[Granted]:
        now = self._now()
        name = _NOT_IN_NAMES.sub("-", f"lakeport-{table.id}")[:_LONGEST_NAME]
        grant = Grant(place=place, storage=storage, seconds=self._validity_seconds, now=now, name=name)
        try:
            granted = self._clouds[place.cloud].vend(grant)
        except SharingError:
            raise
        except ImportError as error:
            raise _not_installed(place.cloud, error) from error
        except Exception as error:  # each library has its own errors
            raise _failed(table, place.cloud, error) from error
        return Fresh(granted, (now + granted.expires) / 2)


def _check_shared_by_directory(table: Table) -> None:
    if "dir" not in table.access_modes:
        raise _unsupported("the table is not shared by its directory (access mode `dir`); read it by signed URLs")
    if not table.history_shared or table.start_version > 0:
        raise _unsupported(
            "temporary credentials open a table's whole directory, with every version, but the history of this "
            "table is not shared, or not from its start: read it by signed URLs"
        )


def _allowed_place(table: Table, location: str | None, account: str | None) -> Location:
    """Raises `SharingError` if the location is neither one of the table's nor in one of them."""
    if location is None:
        return parse_directory(table.location, account)
    roots = (parse_directory(root, account) for root in (table.location, *table.auxiliary_locations))
    own = next(roots)
    try:
        place = parse_directory(location, account)
    except SharingError as error:
        raise _not_of_table() from error
    if not place.is_within(own) and not any(place.is_within(root) for root in roots):
        raise _not_of_table()
    return place


def parse_directory(location: str, account: str | None = None) -> Location:
    """Raises `SharingError`: UNSUPPORTED_OPERATION for a location outside the clouds, INVALID_PARAMETER_VALUE for an
    invalid one."""
    if cloud_of(location) is None:
        raise _unsupported(
            "temporary credentials exist only for tables on S3, Azure and GCS; read this table by signed URLs"
        )
    try:
        parsed = parse_location(location, account)
    except ValueError as error:
        raise _invalid(f"the location {error}") from error
    if _CONTROL.search(parsed.prefix) or any(unquote(segment) in {"", ".", ".."} for segment in parsed.segments):
        raise _invalid("the location has an empty segment, `.`, `..` or a control character")
    return parsed


def _not_of_table() -> SharingError:
    return _invalid(
        "the location is neither the table's, nor one of its auxiliary locations, nor a directory in one of them: "
        "take it from the table's `location` or `auxiliaryLocations`"
    )


def _invalid(message: str) -> SharingError:
    return SharingError(message, status=400, code="INVALID_PARAMETER_VALUE")


def _unsupported(message: str) -> SharingError:
    return SharingError(message, status=400, code="UNSUPPORTED_OPERATION")


def _not_installed(cloud: Cloud, error: ImportError) -> SharingError:
    _log.error(
        "temporary credentials for %s need a missing library (%s): pip install 'lakeport[%s]'",
        cloud.name,
        error,
        cloud.value,
    )
    return _unsupported("this server is not set up to issue temporary credentials here; read the table by signed URLs")


def _failed(table: Table, cloud: Cloud, error: Exception) -> SharingError:
    reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    _log.error("%s issued no temporary credentials for table %s: %s", cloud.name, table.id, reason)
    return SharingError(
        "the provider's storage issued no temporary credentials; try again later, or read the table by signed URLs",
        status=500,
        code="INTERNAL_ERROR",
    )
