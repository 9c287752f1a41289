"""Operations on tables: each plans a transaction and hands it to `transaction`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.alter import Alter, AlterResult
    from lazydelta.operations.column_declarations import Columns, as_schema
    from lazydelta.operations.create import CreateMode, create_table
    from lazydelta.operations.file_task import FileTask, WrittenRows
    from lazydelta.operations.row_tracking import RowTracking
    from lazydelta.operations.uncommitted_files import UncommittedFiles
    from lazydelta.operations.write import plan_write, write_rows
    from lazydelta.operations.write_operation import WriteOperation
    from lazydelta.operations.write_request import WriteMode, WriteRequest, WriteResult

__all__ = [
    "Alter",
    "AlterResult",
    "Columns",
    "CreateMode",
    "FileTask",
    "RowTracking",
    "UncommittedFiles",
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

__getattr__ = lazy_exports(
    __name__,
    {
        "alter": ("Alter", "AlterResult"),
        "column_declarations": ("Columns", "as_schema"),
        "create": ("CreateMode", "create_table"),
        "file_task": ("FileTask", "WrittenRows"),
        "row_tracking": ("RowTracking",),
        "uncommitted_files": ("UncommittedFiles",),
        "write": ("plan_write", "write_rows"),
        "write_operation": ("WriteOperation",),
        "write_request": ("WriteMode", "WriteRequest", "WriteResult"),
    },
)
