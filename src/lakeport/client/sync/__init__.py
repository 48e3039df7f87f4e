"""Copies of shared tables: the recipient's own Delta tables, byte-identical to what the provider shares."""

from lakeport.client.sync.run import SyncResult, sync_table

__all__ = ["SyncResult", "sync_table"]
