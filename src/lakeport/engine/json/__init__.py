"""JSON into Arrow: log files, and text in their columns.

May import the kernel.
"""

from lakeport.engine.json.files import JsonFiles

__all__ = ["JsonFiles"]
