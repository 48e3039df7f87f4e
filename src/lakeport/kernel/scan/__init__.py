"""Scan planning: the files to read, as serialisable values, and the conversion of their rows.

May import `log` and all below it, and `deletion_vectors`.
"""

from lakeport.kernel.scan.files import (
    FilteredBatch, ScanFile, ScanState, living_rows, logical_batch, read_vector, scan_files_in,
    transform_physical_data,
)  # fmt: skip
from lakeport.kernel.scan.plan import PlanBuilder, Scan, ScanBuilder
