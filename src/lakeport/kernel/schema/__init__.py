"""Types and schemas: definitions, JSON, Arrow and SQL forms, and evolution.

May import `values`.
"""

from lakeport.kernel.schema.column_mapping import (
    MAPPING_PREFIX,
    assign_mapping,
    check_mode_change,
    find_twice_mapped,
    without_mapping,
)
from lakeport.kernel.schema.keys import COMMENT, DEFAULT, GENERATION_EXPRESSION, INVARIANTS
from lakeport.kernel.schema.metadata_columns import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ROW_COMMIT_VERSION,
    ROW_ID,
    ROW_POSITION,
)
from lakeport.kernel.schema.names import format_column_list, parse_column_list, parse_path
from lakeport.kernel.schema.text import format_type, parse_schema_text, parse_type
from lakeport.kernel.schema.types import (
    VARIANT_METADATA,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_field,
    arrow_schema,
    arrow_type,
    fields_in,
    format_schema,
    is_any_list,
    is_variant,
    is_variant_field,
    leaves_of,
    nullable,
    parse_schema,
    schema_from_arrow,
    types_in,
)
from lakeport.kernel.schema.widening import widens

__all__ = [
    "CHANGE_COLUMNS", "CHANGE_TYPE", "COMMENT", "COMMIT_TIMESTAMP", "COMMIT_VERSION", "DEFAULT",
    "GENERATION_EXPRESSION", "INVARIANTS", "MAPPING_PREFIX", "ROW_COMMIT_VERSION", "ROW_ID", "ROW_POSITION",
    "VARIANT_METADATA", "ArrayType", "DataType", "MapType", "PrimitiveType", "StructField", "StructType", "arrow_field",
    "arrow_schema", "arrow_type", "assign_mapping", "check_mode_change", "fields_in", "find_twice_mapped",
    "format_column_list", "format_schema", "format_type", "is_any_list", "is_variant", "is_variant_field", "leaves_of",
    "nullable", "parse_column_list", "parse_path", "parse_schema", "parse_schema_text", "parse_type",
    "schema_from_arrow", "types_in", "widens", "without_mapping",
]  # fmt: skip
