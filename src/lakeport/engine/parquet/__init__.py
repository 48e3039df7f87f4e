"""Parquet into Arrow and back, row group skipping, and Java's old calendar.

May import `expressions` and the kernel.
"""

from lakeport.engine.parquet.reading import ParquetFiles

__all__ = ["ParquetFiles"]
