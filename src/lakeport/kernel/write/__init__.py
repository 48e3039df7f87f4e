"""Convert rows to batches for data files and collect their statistics.

May import `definition` and all below it.
"""

from lakeport.kernel.write.context import (
    CHANGE_DIRECTORY, WriteContext, check_storable, decode_adds, encode_adds, to_change,
)  # fmt: skip
from lakeport.kernel.write.fitting import RowName, RowNames, fit_column, format_cell, format_row, match_columns
from lakeport.kernel.write.rows import PhysicalBatch, RowTransformer, partition_codes, to_stored
from lakeport.kernel.write.statistics import StatsCollector, replace_stats, stats_columns, widen_stats
