"""Parquet into Arrow and back, skipping of row groups and rows, and Java's old calendar.

May import `expressions`, the workers and the kernel.
"""

from lakeport.engine.parquet.open_file import read_footer
from lakeport.engine.parquet.polars_rows import load_polars, uses_polars
from lakeport.engine.parquet.reading import ParquetFiles

__all__ = ["ParquetFiles", "load_polars", "read_footer", "uses_polars"]
