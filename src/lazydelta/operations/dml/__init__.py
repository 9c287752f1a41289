"""DELETE and UPDATE: find the matching rows, then delete or replace them in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.dml.delete import delete_rows
    from lazydelta.operations.dml.request import DmlRequest, DmlResult
    from lazydelta.operations.dml.update import update_rows

__all__ = ["DmlRequest", "DmlResult", "delete_rows", "update_rows"]

__getattr__ = lazy_exports(
    __name__,
    {
        "delete": ("delete_rows",),
        "request": ("DmlRequest", "DmlResult"),
        "update": ("update_rows",),
    },
)
