"""The Delta Sharing protocol on the wire: requests and responses as values.

May import the kernel."""

from lakeport.sharing.models import Schema, Share, Table
from lakeport.sharing.names import TableName, parse_table_name

__all__ = ["Schema", "Share", "Table", "TableName", "parse_table_name"]
