"""Operations on tables: each plans a transaction and hands it to `transaction`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazydelta.operations.alter import Alter, AlterResult
    from lazydelta.operations.column_declarations import Columns, as_schema
    from lazydelta.operations.create import CreateMode, create_table
    from lazydelta.operations.file_task import FileTask, WrittenRows
    from lazydelta.operations.write import WriteOperation, plan_write, write_rows
    from lazydelta.operations.write_request import WriteMode, WriteRequest, WriteResult

__all__ = [
    "Alter",
    "AlterResult",
    "Columns",
    "CreateMode",
    "FileTask",
    "WriteMode",
    "WriteOperation",
    "WriteRequest",
    "WriteResult",
    "WrittenRows",
    "as_schema",
    "create_table",
    "plan_write",
    "write_rows",
]

_MODULES = {
    "Alter": "alter",
    "AlterResult": "alter",
    "Columns": "column_declarations",
    "CreateMode": "create",
    "FileTask": "file_task",
    "WriteMode": "write_request",
    "WriteOperation": "write",
    "WriteRequest": "write_request",
    "WriteResult": "write_request",
    "WrittenRows": "file_task",
    "as_schema": "column_declarations",
    "create_table": "create",
    "plan_write": "write",
    "write_rows": "write",
}


def __getattr__(name: str) -> Any:
    """Import the module that defines a name on first use: readers do not load writers."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__package__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
