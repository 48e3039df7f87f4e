"""HTTP pools for tests."""

from __future__ import annotations

from lakeport.client.http.connections import ConnectionOptions
from lakeport.client.http.pool import HttpOptions, HttpPool
from lakeport.client.http.retrying import RetryOptions


def patient_pool(retries: int = 30) -> HttpPool:
    """Tries often, and soon."""
    return HttpPool(
        HttpOptions(
            connections=ConnectionOptions(read_seconds=0.5, connect_seconds=5),
            retries=RetryOptions(retries=retries, first_wait_seconds=0.01, longest_wait_seconds=0.05),
        )
    )
