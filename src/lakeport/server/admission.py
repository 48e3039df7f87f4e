"""Who is connected: how much of the server each address takes up."""

from __future__ import annotations

import resource
from collections import Counter
from http import HTTPStatus
from typing import NamedTuple

from lakeport.server.auth import Proxies, address_group
from lakeport.server.config import Limits

_OWN_DESCRIPTORS = 128
"""For the log, the catalog, the storage of tables, and connections of probes."""
_RESERVED = 32
"""Connections beyond the limit, which get an answer to probes only."""


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
        self.connections: Counter[str] = Counter()
        self.partial: Counter[str] = Counter()

    def enter(self, address: str) -> Visit | Refused:
        """Lets a connection in, if there is room."""
        group = None if self._proxies.trust(address) else address_group(address)
        if group is not None and self.connections[group] >= self._most_per_address:
            return Refused(HTTPStatus.TOO_MANY_REQUESTS, f"{self._most_per_address} connections come from this address")
        if self.open >= self.most + _RESERVED:
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"the server has {self.open} connections")
        return Visit(self, group, crowded=self.open >= self.most)


class Visit:
    """One connection; `address` is None if its limits do not apply."""

    def __init__(self, admission: Admission, address: str | None, *, crowded: bool) -> None:
        self._admission, self._address = admission, address
        self.crowded = crowded
        """Whether it is answered only if it is a probe."""
        self._left = self._partial = False
        admission.open += 1
        _count(admission.connections, address, 1)

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
        self._admission.open -= 1
        _count(self._admission.connections, self._address, -1)


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
