"""`CloudVendor`: the interface that each cloud implements to issue temporary credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lakeport.locations import Location
from lakeport.sharing.models import AwsTempCredentials, AzureUserDelegationSas, GcpOauthToken


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
