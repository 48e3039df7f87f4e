"""Types and schemas: definitions, JSON, Arrow and SQL forms, and evolution.

May import `values`.
"""

from lakeport.kernel.schema.arrow import (
    VARIANT_METADATA, arrow_field, arrow_schema, arrow_type, is_variant, is_variant_field, nullable, schema_from_arrow,
)  # fmt: skip
from lakeport.kernel.schema.column_mapping import assign_mapping, check_mode_change, find_twice_mapped, without_mapping
from lakeport.kernel.schema.names import format_column_list, format_path, parse_column_list, parse_path, quoted
from lakeport.kernel.schema.text import format_type, kind_of, parse_schema_text, parse_type
from lakeport.kernel.schema.types import (
    CHANGE_COLUMNS, CHANGE_TYPE, COMMENT, COMMIT_TIMESTAMP, COMMIT_VERSION, DEFAULT, GENERATION_EXPRESSION, INVARIANTS,
    MAPPING_PREFIX, NESTED_IDS, ROW_COMMIT_VERSION, ROW_ID, ROW_POSITION, TYPE_CHANGES, VOID, ArrayType, DataType,
    MapType, Place, PrimitiveType, StructField, StructType, all_nullable, fields_in, format_schema, leaves_of,
    logical_path, map_fields, parse_schema, parts_of, places_in, same_shape, types_in, widens,
)  # fmt: skip
