"""Tables from existing files, and lists of files for other engines: CONVERT, CLONE, GENERATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.conversion.clone import CloneResult, clone_table
    from lazydelta.operations.conversion.convert import ConvertResult, convert_files
    from lazydelta.operations.conversion.symlink_manifest import write_symlink_manifests

__all__ = [
    "CloneResult",
    "ConvertResult",
    "clone_table",
    "convert_files",
    "write_symlink_manifests",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "clone": ("CloneResult", "clone_table"),
        "convert": ("ConvertResult", "convert_files"),
        "symlink_manifest": ("write_symlink_manifests",),
    },
)
