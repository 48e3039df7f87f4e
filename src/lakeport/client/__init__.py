"""The recipient's side of sharing: from a profile to rows."""

from lakeport.client.opening import open_shared

__all__ = ["open_shared"]
