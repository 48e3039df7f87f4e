"""JSON into Arrow: files of the log, and texts in its columns.

May import the kernel.
"""

from lakeport.engine.json.files import JsonFiles

__all__ = ["JsonFiles"]
