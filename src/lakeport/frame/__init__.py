"""Lazy rows and changes of a table, and how a target becomes one.

May import `source`, `workers`, `engine` and the kernel; the client and Spark only when needed.
"""

from lakeport.frame.frame import Changes, Frame, open_source, scan
from lakeport.frame.rows import Rows

__all__ = ["Changes", "Frame", "Rows", "open_source", "scan"]
