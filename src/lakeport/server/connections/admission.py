"""Admission: connection limits, in total and per address."""

from __future__ import annotations

import resource
from collections import Counter
from http import HTTPStatus
from typing import NamedTuple

from lakeport.server.access.recipients import Proxies, address_group
from lakeport.server.config import Limits

_OWN_DESCRIPTORS = 128
"""For the log, the catalog, table storage and probe connections."""
_RESERVED = 32
"""Connections beyond the limits, which may only probe."""
_RESERVED_PER_ADDRESS = 8
"""The reserved connections one address may have: it must not lock out other probes."""


class Refused(NamedTuple):
    status: HTTPStatus
    reason: str


class Admission:
    """Counts connections and partial requests by address. Trusted proxies are exempt from per-address limits.

    Use only on the event loop."""

    def __init__(self, limits: Limits, proxies: Proxies) -> None:
        self.limits, self._proxies = limits, proxies
        self.most = limits.connections or _affordable()
        # One address must not be able to lock out all others.
        self._most_per_address = min(limits.connections_per_address or self.most, max(1, self.most * 3 // 4))
        self.open = 0
        self.reserved = 0
        """Open connections that may only probe."""
        self.connections: Counter[str] = Counter()
        self.reserved_by_address: Counter[str] = Counter()
        self.partial: Counter[str] = Counter()

    def admit(self, address: str) -> Slot | Refused:
        """Admit a connection if there is room; beyond the limits, a few that may only probe."""
        group = None if self._proxies.trust(address) else address_group(address)
        refused = self._refusal(group)
        if refused is not None and self._is_reserve_used_up(group):
            return refused
        return Slot(self, group, refused)

    def _refusal(self, group: str | None) -> Refused | None:
        if group is not None and self.connections[group] >= self._most_per_address:
            return Refused(HTTPStatus.TOO_MANY_REQUESTS, f"this address has {self._most_per_address} connections")
        if self.open - self.reserved >= self.most:
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"the server has {self.open} connections")
        return None

    def _is_reserve_used_up(self, group: str | None) -> bool:
        own = 0 if group is None else self.reserved_by_address[group]
        return self.reserved >= _RESERVED or own >= _RESERVED_PER_ADDRESS


class Slot:
    """The place of one connection; `address` is None if per-address limits do not apply."""

    def __init__(self, admission: Admission, address: str | None, refused: Refused | None) -> None:
        self._admission, self._address = admission, address
        self.refused = refused
        """The response to everything but probes, if the connection is beyond the limits."""
        self._released = self._partial = False
        self._count(1)

    def may_wait(self, *, partial: bool) -> bool:
        """Record whether the connection holds an incomplete request; False if its address has too many."""
        if partial != self._partial:
            self._partial = partial
            _count(self._admission.partial, self._address, 1 if partial else -1)
        if self._address is None or not partial:
            return True
        most = self._admission.limits.partial_requests_per_address
        return not most or self._admission.partial[self._address] <= most

    def release(self) -> None:
        """Idempotent."""
        if self._released:
            return
        self._released = True
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
    """Each connection may need a second descriptor, for a file download."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(16, (descriptors - _OWN_DESCRIPTORS) // 2)


def _count(counter: Counter[str], key: str | None, by: int) -> None:
    """Drop zeros: addresses come and go."""
    if key is None:
        return
    counter[key] += by
    if not counter[key]:
        del counter[key]
