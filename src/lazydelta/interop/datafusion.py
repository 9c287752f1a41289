"""DataFusion: a table over the lazy rows, by the best way its Python package offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, MissingExtraError
from lazydelta.interop.dataset import LazyDataset
from lazydelta.interop.source import as_feed, check_name

if TYPE_CHECKING:
    from lazydelta.interop.source import Source
    from lazydelta.scan.read import ReadOptions

__all__ = ["register"]

_PATH = "pyarrow dataset: filters and columns pushed down, rows streamed"


def register(context: Any, name: str, source: Source, options: ReadOptions | None = None) -> str:
    """Make a table, a snapshot, a scan or a change feed known to a DataFusion context.

    A provider of DataFusion's own needs native code; a pyarrow dataset gets the same filters
    and columns, so it is the way taken. `LIKE` and arithmetic stay with DataFusion, which pulls
    no more rows than its plan needs.

    Args:
        context: A `datafusion.SessionContext`.
        name: The table's name in SQL, kept as it is written.
        source: What to read; a table is pinned to the version it has now.
        options: How rows are read and shown.

    Returns:
        Which way is in use.

    Raises:
        MissingExtraError: DataFusion is not installed.
        ConfigError: The context or the name is none.
    """
    try:
        import datafusion  # noqa: F401 - only to say what is missing
    except ModuleNotFoundError:
        raise MissingExtraError("datafusion", "datafusion") from None
    if not hasattr(context, "register_dataset"):
        raise ConfigError("context", f"must be a SessionContext, not {context!r:.80}")
    check_name(name)
    quoted = '"' + name.replace('"', '""') + '"'
    context.register_dataset(quoted, LazyDataset(as_feed(source), options, for_datafusion=True))
    return _PATH
