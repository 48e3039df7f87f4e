"""Files by path: disks, memory and object stores; uploads, signed URLs, and confinement to a table's directories.

May import the kernel.
"""

from lakeport.engine.storage.storage import Storage

__all__ = ["Storage"]
