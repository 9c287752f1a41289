"""Schema evolution: merging schemas, and type widening."""

from __future__ import annotations

from lazydelta.schema.evolution.schema_merge import merge_schemas, nullable_schema
from lazydelta.schema.evolution.type_widening import (
    TYPE_CHANGES,
    can_read_as,
    can_widen,
    check_type_changes,
    with_type_change,
)

__all__ = [
    "TYPE_CHANGES",
    "can_read_as",
    "can_widen",
    "check_type_changes",
    "merge_schemas",
    "nullable_schema",
    "with_type_change",
]
