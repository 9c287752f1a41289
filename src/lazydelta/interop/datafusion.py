"""DataFusion: register a lazy table, as a pyarrow dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, MissingExtraError
from lazydelta.interop.adapter_source import as_row_scan, check_name
from lazydelta.interop.dataset import LazyDataset
from lazydelta.interop.fork_guard import DATAFUSION

if TYPE_CHECKING:
    from lazydelta.config import ReadOptions
    from lazydelta.interop.adapter_source import Source

__all__ = ["register"]

_PATH = "pyarrow dataset: filters and columns pushed down, rows streamed"


def register(context: Any, name: str, source: Source, options: ReadOptions | None = None) -> str:
    """Register a table, snapshot, scan or change feed in a DataFusion context.

    A `TableProvider` would need native code. A pyarrow dataset receives the same filters and
    columns. `LIKE` and arithmetic are evaluated by DataFusion, which pulls no more rows than its
    plan needs.

    Args:
        context: A `datafusion.SessionContext`.
        name: The table's name in SQL, case-sensitive.
        source: What to read; a table is pinned to its current version.
        options: How rows are read and presented.

    Returns:
        A description of the integration path in use.

    Raises:
        MissingExtraError: DataFusion is not installed.
        ConfigError: The context or the name is invalid.
        ForkedProcessError: The parent process of this one has used DataFusion.
    """
    try:
        import datafusion  # noqa: F401 - only to report a missing package
    except ModuleNotFoundError:
        raise MissingExtraError("datafusion", "datafusion") from None
    if not hasattr(context, "register_dataset"):
        raise ConfigError("context", f"must be a SessionContext, not {context!r:.80}")
    check_name(name)
    DATAFUSION.check()
    quoted = '"' + name.replace('"', '""') + '"'
    context.register_dataset(quoted, LazyDataset(as_row_scan(source), options, for_datafusion=True))
    return _PATH
