"""Copies of shared tables: Delta tables of the recipient's own, with the bytes of what the provider shares."""

from lakeport.client.sync.result import SyncResult
from lakeport.client.sync.run import sync_table

__all__ = ["SyncResult", "sync_table"]
