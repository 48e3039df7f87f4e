"""Files by path: disks, memory and object stores; uploads, signed URLs, and paths that must not leave a table.

May import the kernel.
"""

from lakeport.engine.storage.storage import Storage

__all__ = ["Storage"]
