"""A server with a few tables, and the profile of its recipient."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeport import tables
from tests.server.running import TOKEN, Running, running, sharing

NOWHERE = "http://127.0.0.1:1/delta-sharing"
"""Nothing listens there."""


@dataclass(frozen=True)
class Shared:
    folder: Path
    profile: Path
    server: Running

    def target(self, name: str) -> str:
        return f"{self.profile}#{name}"


def profile_text(endpoint: str, token: str = TOKEN, **more: Any) -> str:
    return json.dumps({"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": token, **more})


@contextmanager
def sharing_tables(folder: Path, **table_settings: Any) -> Iterator[Shared]:
    """`sales.eu.orders` (version 0: three orders, 1: one more), `sales.eu.cities` and `hr.team.people`."""
    feed = {"delta.enableChangeDataFeed": "true"}
    orders = {"id": [1, 2, 3], "city": ["Oslo", "Cork", "Oslo"], "amount": [120, 80, 40]}
    tables.create(str(folder / "orders"), orders, partition_by=["city"], properties=feed)
    tables.append(str(folder / "orders"), [{"id": 4, "city": "Bari", "amount": 300}])
    tables.create(str(folder / "cities"), {"name": ["Oslo", "Cork", "Bari"], "country": ["NO", "IE", "IT"]})
    tables.create(str(folder / "people"), {"name": ["Ann"]})
    places = {"sales.eu.orders": "orders", "sales.eu.cities": "cities", "hr.team.people": "people"}
    settings = {"history_shared": True, **table_settings}
    with running(sharing({name: folder / place for name, place in places.items()}, **settings)) as server:
        profile = folder / "config.share"
        profile.write_text(profile_text(server.endpoint))
        yield Shared(folder, profile, server)
