"""A table's definition, without its files: protocol, features, properties, constraints, layout.

May import `data_files` and all below it, and `actions`.
"""

from lakeport.kernel.definition.constraints import TableExpression, constraints_of, expressions_in, uses_of_columns
from lakeport.kernel.definition.definition import (
    CLUSTERING_DOMAIN,
    TableDefinition,
    clustering_domain,
    define_table,
    parse_clustering,
    with_history,
)
from lakeport.kernel.definition.features import (
    CATALOG_MANAGED,
    READER_FEATURES,
    check_readable,
    check_type_changes,
    column_mapping_mode,
    is_catalog_managed,
    reader_features,
)
from lakeport.kernel.definition.layout import Layout, find_incompatibility, layout_of
from lakeport.kernel.definition.properties import (
    APPEND_ONLY,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_POLICY,
    CHECKPOINT_STATS_AS_JSON,
    CHECKPOINT_STATS_AS_STRUCT,
    COLUMN_MAPPING_MODE,
    COMPRESSION,
    CONSTRAINT_PREFIX,
    DELETED_FILE_RETENTION,
    ENABLE_CHANGE_DATA_FEED,
    ENABLE_DELETION_VECTORS,
    ENABLE_EXPIRED_LOG_CLEANUP,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    ENABLE_TYPE_WIDENING,
    INDEXED_COLUMNS,
    ISOLATION_LEVEL,
    LOG_RETENTION,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    STATS_COLUMNS,
    TARGET_FILE_SIZE,
    TIMESTAMP_ENABLEMENT,
    TIMESTAMPS_SINCE,
    TIMESTAMPS_SINCE_VERSION,
    TRANSACTION_RETENTION,
    Configuration,
    check_removable,
    constraints_in,
    parse_interval,
    parse_size,
    spelled_property,
)
from lakeport.kernel.definition.row_tracking import (
    ROW_TRACKING_DOMAIN,
    assign_row_ids,
    assigns_row_ids,
    high_water_mark,
)
from lakeport.kernel.definition.writer_features import check_writable, protocol_for, supported_features

__all__ = [
    "APPEND_ONLY", "CATALOG_MANAGED", "CHECKPOINT_INTERVAL", "CHECKPOINT_POLICY", "CHECKPOINT_STATS_AS_JSON",
    "CHECKPOINT_STATS_AS_STRUCT", "CLUSTERING_DOMAIN", "COLUMN_MAPPING_MODE", "COMPRESSION", "CONSTRAINT_PREFIX",
    "DELETED_FILE_RETENTION", "ENABLE_CHANGE_DATA_FEED", "ENABLE_DELETION_VECTORS", "ENABLE_EXPIRED_LOG_CLEANUP",
    "ENABLE_IN_COMMIT_TIMESTAMPS", "ENABLE_ROW_TRACKING", "ENABLE_TYPE_WIDENING", "INDEXED_COLUMNS", "ISOLATION_LEVEL",
    "LOG_RETENTION", "READER_FEATURES", "ROW_COMMIT_VERSION_COLUMN", "ROW_ID_COLUMN", "ROW_TRACKING_DOMAIN",
    "STATS_COLUMNS", "TARGET_FILE_SIZE", "TIMESTAMPS_SINCE", "TIMESTAMPS_SINCE_VERSION", "TIMESTAMP_ENABLEMENT",
    "TRANSACTION_RETENTION", "Configuration", "Layout", "TableDefinition", "TableExpression", "assign_row_ids",
    "assigns_row_ids", "check_readable", "check_removable", "check_type_changes", "check_writable", "clustering_domain",
    "column_mapping_mode", "constraints_in", "constraints_of", "define_table", "expressions_in", "find_incompatibility",
    "high_water_mark", "is_catalog_managed", "layout_of", "parse_clustering", "parse_interval", "parse_size",
    "protocol_for", "reader_features", "spelled_property", "supported_features", "uses_of_columns", "with_history",
]  # fmt: skip
