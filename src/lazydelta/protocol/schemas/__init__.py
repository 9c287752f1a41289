"""Arrow schemas of the file actions."""

from __future__ import annotations

from lazydelta.protocol.schemas.action_schemas import (
    ADD,
    CHANGE_COLUMNS,
    CHANGE_FILE,
    DELETION_VECTOR,
    REMOVE,
    REMOVE_ACTION,
)

__all__ = [
    "ADD",
    "CHANGE_COLUMNS",
    "CHANGE_FILE",
    "DELETION_VECTOR",
    "REMOVE",
    "REMOVE_ACTION",
]
