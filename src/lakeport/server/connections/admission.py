"""Who is connected: how much of the server each address takes up."""

from __future__ import annotations

import resource
from collections import Counter
from http import HTTPStatus
from typing import NamedTuple

from lakeport.server.access.recipients import Proxies, address_group
from lakeport.server.config import Limits

_OWN_DESCRIPTORS = 128
"""For the log, the catalog, the storage of tables, and connections of probes."""
_RESERVED = 32
"""Connections beyond the limits, which get an answer to probes only."""
_RESERVED_PER_ADDRESS = 8
"""How many of them one address may have: it must not keep the probes of others out."""


class Refused(NamedTuple):
    status: HTTPStatus
    reason: str


class Admission:
    """Counts what clients hold, by address. Trusted proxies speak for many clients: limits by address do not apply.

    Belongs to the event loop."""

    def __init__(self, limits: Limits, proxies: Proxies) -> None:
        self.limits, self._proxies = limits, proxies
        self.most = limits.connections or _affordable()
        # One address must not be able to keep all others out.
        self._most_per_address = min(limits.connections_per_address or self.most, max(1, self.most * 3 // 4))
        self.open = 0
        self.reserved = 0
        """How many of the open ones only probes can use."""
        self.connections: Counter[str] = Counter()
        self.reserved_by_address: Counter[str] = Counter()
        self.partial: Counter[str] = Counter()

    def enter(self, address: str) -> Visit | Refused:
        """Lets a connection in, if there is room; beyond the limits, a few that may probe."""
        group = None if self._proxies.trust(address) else address_group(address)
        refused = self._refusal(group)
        if refused is not None and self._is_reserve_used_up(group):
            return refused
        return Visit(self, group, refused)

    def _refusal(self, group: str | None) -> Refused | None:
        if group is not None and self.connections[group] >= self._most_per_address:
            return Refused(HTTPStatus.TOO_MANY_REQUESTS, f"{self._most_per_address} connections come from this address")
        if self.open - self.reserved >= self.most:
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"the server has {self.open} connections")
        return None

    def _is_reserve_used_up(self, group: str | None) -> bool:
        own = 0 if group is None else self.reserved_by_address[group]
        return self.reserved >= _RESERVED or own >= _RESERVED_PER_ADDRESS


class Visit:
    """One connection; `address` is None if its limits do not apply."""

    def __init__(self, admission: Admission, address: str | None, refused: Refused | None) -> None:
        self._admission, self._address = admission, address
        self.refused = refused
        """The answer to everything but probes, if the connection is beyond the limits."""
        self._left = self._partial = False
        self._count(1)

    def may_wait(self, *, partial: bool) -> bool:
        """Notes whether the connection holds an incomplete request; False if its address has too many of them."""
        if partial != self._partial:
            self._partial = partial
            _count(self._admission.partial, self._address, 1 if partial else -1)
        if self._address is None or not partial:
            return True
        most = self._admission.limits.partial_requests_per_address
        return not most or self._admission.partial[self._address] <= most

    def leave(self) -> None:
        """May be called twice."""
        if self._left:
            return
        self._left = True
        self.may_wait(partial=False)
        self._count(-1)

    def _count(self, by: int) -> None:
        admission = self._admission
        admission.open += by
        if self.refused is None:
            _count(admission.connections, self._address, by)
        else:
            admission.reserved += by
            _count(admission.reserved_by_address, self._address, by)


def _affordable() -> int:
    """Each connection may take a second descriptor, for a file that it downloads."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(16, (descriptors - _OWN_DESCRIPTORS) // 2)


def _count(counter: Counter[str], key: str | None, by: int) -> None:
    """Forgets what is zero: addresses come and go."""
    if key is None:
        return
    counter[key] += by
    if not counter[key]:
        del counter[key]
