"""A table's definition, without its files: protocol, features, properties, constraints, layout.

May import `data_files` and all below it, and `actions`.
"""

from lakeport.kernel.definition.constraints import TableExpression, constraints_of, expressions_in, uses_of_columns
from lakeport.kernel.definition.definition import (
    CLUSTERING_DOMAIN, TableDefinition, clustering_domain, define_table, parse_clustering, with_history,
)  # fmt: skip
from lakeport.kernel.definition.features import (
    CATALOG_MANAGED, READER_FEATURES, check_readable, check_type_changes, check_writable, column_mapping_mode,
    is_catalog_managed, protocol_for, reader_features, supported_features,
)  # fmt: skip
from lakeport.kernel.definition.layout import Layout, find_incompatibility, layout_of
from lakeport.kernel.definition.properties import (
    APPEND_ONLY, CHECKPOINT_INTERVAL, CHECKPOINT_POLICY, CHECKPOINT_STATS_AS_JSON, CHECKPOINT_STATS_AS_STRUCT,
    COLUMN_MAPPING_MODE, COMPRESSION, CONSTRAINT_PREFIX, DELETED_FILE_RETENTION, ENABLE_CHANGE_DATA_FEED,
    ENABLE_DELETION_VECTORS, ENABLE_EXPIRED_LOG_CLEANUP, ENABLE_IN_COMMIT_TIMESTAMPS, ENABLE_ROW_TRACKING,
    ENABLE_TYPE_WIDENING, INDEXED_COLUMNS, ISOLATION_LEVEL, LOG_RETENTION, ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN,
    STATS_COLUMNS, TARGET_FILE_SIZE, TIMESTAMP_ENABLEMENT, TIMESTAMPS_SINCE, TIMESTAMPS_SINCE_VERSION,
    TRANSACTION_RETENTION, Configuration, check_removable, compacts_after_writes, constraints_in, gathers_rows,
    parse_interval, parse_size, spelled_property,
)  # fmt: skip
from lakeport.kernel.definition.row_tracking import (
    ROW_TRACKING_DOMAIN, assign_row_ids, assigns_row_ids, high_water_mark, row_tracking_domain,
)  # fmt: skip
from lakeport.kernel.definition.soundness import problems_of_ordering
