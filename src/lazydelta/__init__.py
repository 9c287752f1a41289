"""lazydelta: Delta tables of any size, planned newest first, exactly, in bounded memory.

>>> import lazydelta as ld
>>> ld.Table.open("/lake/trips")
Table('/lake/trips')
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lazydelta._deltalake_names import MODULE_NAMES, no_attribute

if TYPE_CHECKING:
    from lazydelta import errors
    from lazydelta.changes import ChangeFeed
    from lazydelta.config import Config, ReadOptions, WriteOptions
    from lazydelta.expressions import Predicate, col, lit
    from lazydelta.interop import QueryBuilder, sql
    from lazydelta.outputs import Adapters
    from lazydelta.scan import Scan
    from lazydelta.scan.plan import ScanFile
    from lazydelta.table import Snapshot, Table, convert, maintain, write

logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.1.0"

__all__ = [
    "ChangeFeed",
    "Config",
    "Predicate",
    "QueryBuilder",
    "ReadOptions",
    "Scan",
    "ScanFile",
    "Snapshot",
    "Table",
    "WriteOptions",
    "__version__",
    "col",
    "convert",
    "errors",
    "lit",
    "maintain",
    "sql",
    "write",
]

_PLACES = {
    "ChangeFeed": "changes",
    "Config": "config",
    "Predicate": "expressions",
    "QueryBuilder": "interop",
    "ReadOptions": "config",
    "Scan": "scan",
    "ScanFile": "scan.plan",
    "Snapshot": "table",
    "Table": "table",
    "WriteOptions": "config",
    "col": "expressions",
    "convert": "table",
    "lit": "expressions",
    "maintain": "table",
    "sql": "interop",
    "write": "table",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use: `lazydelta --help` needs none, and a reader no writer."""
    if name == "errors":
        return import_module(f"{__name__}.errors")
    if name not in _PLACES:
        raise no_attribute(f"module {__name__!r}", name, MODULE_NAMES)
    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Offer the public names only to tab completion."""
    return sorted(__all__)


def load_interop() -> Adapters:
    """Load the adapters to other engines, for `lazydelta.outputs`: they import those engines."""
    adapters: Any = import_module(f"{__name__}.interop")
    return adapters
