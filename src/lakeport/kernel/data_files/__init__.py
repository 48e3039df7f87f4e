"""Data files: columns, partition values, statistics, and data skipping.

May import `variant`, `expressions`, `schema`, `values` and `engine`.
"""

from lakeport.kernel.data_files.columns import (
    FieldIndex, cast_moments, columns_to_read, conform, make_batch, map_leaves, physical_field, to_logical,
    to_physical, without_hidden_nulls,
)  # fmt: skip
from lakeport.kernel.data_files.partition_values import (
    compact_partitions, constant_column, format_partition_value, parse_partition_value, parse_partition_values,
    partition_column, partition_directory, partition_struct,
)  # fmt: skip
from lakeport.kernel.data_files.skipping import Bounds, may_match
from lakeport.kernel.data_files.statistics import (
    CUT_LENGTH, FileStatistics, conform_parsed, decode_num_records, format_stats, physical_path, put_at, stats_type,
    whole_stats_type,
)  # fmt: skip
