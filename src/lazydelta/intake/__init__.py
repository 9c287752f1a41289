"""What a table asks of whoever writes to it: columns, types, rules, properties, features.

Plans how rows come to fit (`plan_intake`) and how files are laid out (`DataLayout`). No I/O, no
threads, and whatever a plan needs pickles. Knows nothing of files, commits or sources of rows.
"""

from __future__ import annotations

from lazydelta.intake.column_names import check_names, check_partition_columns, shown_path
from lazydelta.intake.fillers import plan_fillers
from lazydelta.intake.identity import (
    farthest_numbers,
    identity_columns,
    is_identity,
    with_marks,
    without_marks,
)
from lazydelta.intake.layout import DataLayout, statistics_columns
from lazydelta.intake.needs import all_fields, first_protocol, needed_features, needed_protocol
from lazydelta.intake.plan import Intake, SchemaMode, plan_intake
from lazydelta.intake.properties import (
    CHANGE_FEED,
    CONSTRAINT,
    KEPT_BY_ENGINES,
    MAPPING_MODE,
    MAX_COLUMN_ID,
    ROW_TRACKING,
    AskedProperties,
    check_keys,
    is_on,
    row_tracking_columns,
)
from lazydelta.intake.rules import GENERATION, Rule, table_rules
from lazydelta.intake.schema import TableShape, refuse_void_within

__all__ = [
    "CHANGE_FEED",
    "CONSTRAINT",
    "GENERATION",
    "KEPT_BY_ENGINES",
    "MAPPING_MODE",
    "MAX_COLUMN_ID",
    "ROW_TRACKING",
    "AskedProperties",
    "DataLayout",
    "Intake",
    "Rule",
    "SchemaMode",
    "TableShape",
    "all_fields",
    "check_keys",
    "check_names",
    "check_partition_columns",
    "farthest_numbers",
    "first_protocol",
    "identity_columns",
    "is_identity",
    "is_on",
    "needed_features",
    "needed_protocol",
    "plan_fillers",
    "plan_intake",
    "refuse_void_within",
    "row_tracking_columns",
    "shown_path",
    "statistics_columns",
    "table_rules",
    "with_marks",
    "without_marks",
]
