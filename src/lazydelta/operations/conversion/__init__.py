"""Tables from existing files: CONVERT and CLONE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.conversion.clone import CloneResult, clone_table
    from lazydelta.operations.conversion.convert import ConvertResult, convert_files

__all__ = ["CloneResult", "ConvertResult", "clone_table", "convert_files"]

__getattr__ = lazy_exports(
    __name__,
    {
        "clone": ("CloneResult", "clone_table"),
        "convert": ("ConvertResult", "convert_files"),
    },
)
