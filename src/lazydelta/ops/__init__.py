"""Operations on tables: each plans a transaction and hands it to `commit`."""

from __future__ import annotations

from lazydelta.ops.alter import Alter, AlterResult
from lazydelta.ops.columns import Columns, as_schema
from lazydelta.ops.create import CreateMode, create_table, new_table
from lazydelta.ops.data_files import write_data_files
from lazydelta.ops.request import WriteMode, WriteRequest, WriteResult
from lazydelta.ops.sources import as_source
from lazydelta.ops.write import FileTask, Writing, WrittenRows, plan_write, write_rows

__all__ = [
    "Alter",
    "AlterResult",
    "Columns",
    "CreateMode",
    "FileTask",
    "WriteMode",
    "WriteRequest",
    "WriteResult",
    "Writing",
    "WrittenRows",
    "as_schema",
    "as_source",
    "create_table",
    "new_table",
    "plan_write",
    "write_data_files",
    "write_rows",
]
