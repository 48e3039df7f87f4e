"""Edit Parquet files column by column: unchanged columns are copied byte for byte.

May import `parquet`, `storage` and the kernel.
"""

from lakeport.engine.column_editing.files import EditableParquetFiles

__all__ = ["EditableParquetFiles"]
