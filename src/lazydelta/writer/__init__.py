"""What a table asks of whoever writes to it: columns, types, rules, properties, features.

Plans how rows come to fit (`plan_enforcement`) and how files are laid out (`DataLayout`). No I/O, no
threads, and whatever a plan needs pickles. Knows nothing of files, commits or sources of rows.
"""

from __future__ import annotations

from lazydelta.writer.change_files import rows_of, write_change_files
from lazydelta.writer.column_names import check_names, check_partition_columns, shown_path
from lazydelta.writer.constraints import GENERATION, Rule, table_rules
from lazydelta.writer.data_files import write_data_files
from lazydelta.writer.enforcement import Enforcement, SchemaMode, plan_enforcement
from lazydelta.writer.generated_columns import plan_computed_columns
from lazydelta.writer.identity import (
    high_water_marks,
    identity_columns,
    is_identity,
    with_high_water_marks,
    without_high_water_marks,
)
from lazydelta.writer.layout import DataLayout, statistics_columns
from lazydelta.writer.property_validation import (
    CHANGE_FEED,
    CONSTRAINT,
    ENGINE_MANAGED,
    MAPPING_MODE,
    MAX_COLUMN_ID,
    ROW_TRACKING,
    RequestedProperties,
    check_keys,
    is_on,
    row_tracking_columns,
)
from lazydelta.writer.required_protocol import (
    FIRST_PROTOCOL,
    all_fields,
    needed_features,
    needed_protocol,
)
from lazydelta.writer.row_sources import as_source
from lazydelta.writer.schema_evolution import TableDefinition, refuse_void_within

__all__ = [
    "CHANGE_FEED",
    "CONSTRAINT",
    "ENGINE_MANAGED",
    "FIRST_PROTOCOL",
    "GENERATION",
    "MAPPING_MODE",
    "MAX_COLUMN_ID",
    "ROW_TRACKING",
    "DataLayout",
    "Enforcement",
    "RequestedProperties",
    "Rule",
    "SchemaMode",
    "TableDefinition",
    "all_fields",
    "as_source",
    "check_keys",
    "check_names",
    "check_partition_columns",
    "high_water_marks",
    "identity_columns",
    "is_identity",
    "is_on",
    "needed_features",
    "needed_protocol",
    "plan_computed_columns",
    "plan_enforcement",
    "refuse_void_within",
    "row_tracking_columns",
    "rows_of",
    "shown_path",
    "statistics_columns",
    "table_rules",
    "with_high_water_marks",
    "without_high_water_marks",
    "write_change_files",
    "write_data_files",
]
