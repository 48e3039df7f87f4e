"""The seam between the rules, which are the same for all, and the clouds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lakeport.server.credentials.places import Place
from lakeport.sharing.models import AwsTempCredentials, AzureUserDelegationSas, GcpOauthToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What is asked of a cloud: to read everything in `place`, and nothing else."""

    place: Place
    storage: Mapping[str, Any]
    """The options by which the server itself reads there."""
    seconds: int
    """How long it should be good for; a cloud that does not give exactly this gives what is nearest."""
    now: float
    name: str
    """For the cloud's own audit log: letters, digits and `-`."""


@dataclass(frozen=True, slots=True)
class Granted:
    key: AwsTempCredentials | AzureUserDelegationSas | GcpOauthToken
    expires: float
    """Seconds since the epoch."""


class CloudVendor(Protocol):
    """Blocks, and may be called from any thread.

    Raises `SharingError` for a place that the cloud cannot give credentials for, `ImportError` if its library is not
    installed, and whatever else the library raises.
    """

    def vend(self, grant: Grant) -> Granted: ...
