"""The reason why an address has no table: each kind of wrong local path has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import TableNotFoundError
from lazydelta.log import LOG_DIRECTORY

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["table_not_found"]


def table_not_found(root: str) -> TableNotFoundError:
    """Return the error for a root whose log has no commit and no checkpoint."""
    from pathlib import Path  # slow to import

    parent, _, name = root.rpartition("/")
    if name == LOG_DIRECTORY:
        return TableNotFoundError(root, f"it is the log of a table. Give the table: {parent}")
    if not root.startswith("/"):
        return TableNotFoundError(root)
    try:
        return TableNotFoundError(root, _local_reason(Path(root)))
    except OSError:  # name too long, or permission denied
        return TableNotFoundError(root)


def _local_reason(path: Path) -> str:
    if path.is_file():
        kind = "a Parquet file" if path.suffix == ".parquet" else "a file"
        return f"it is {kind}. A Delta table is a directory with a {LOG_DIRECTORY}"
    if not path.exists():
        return "the path does not exist. Check it, or write rows to it to create the table"
    if not (path / LOG_DIRECTORY).exists():
        return (
            f"the directory has no {LOG_DIRECTORY}. Check the path, or write rows to it to create "
            "the table"
        )
    return f"its {LOG_DIRECTORY} has no commit and no checkpoint"
