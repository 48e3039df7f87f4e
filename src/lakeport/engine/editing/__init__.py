"""Edit Parquet files column by column: what does not change is taken over as the bytes that it is.

May import `parquet`, `storage` and the kernel.
"""

from lakeport.engine.editing.files import EditableParquetFiles

__all__ = ["EditableParquetFiles"]
