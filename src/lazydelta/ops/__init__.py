"""Operations on tables: each plans a transaction and hands it to `commit`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_PLACES = {
    "Alter": "alter",
    "AlterResult": "alter",
    "Columns": "columns",
    "CreateMode": "create",
    "FileTask": "write",
    "WriteMode": "request",
    "WriteRequest": "request",
    "WriteResult": "request",
    "Writing": "write",
    "WrittenRows": "write",
    "as_schema": "columns",
    "as_source": "sources",
    "create_table": "create",
    "new_table": "create",
    "plan_write": "write",
    "write_data_files": "data_files",
    "write_rows": "write",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: whoever only reads tables does not wait for what writes them."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__package__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found
