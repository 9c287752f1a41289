"""lazydelta: Delta tables of any size, planned newest first, exactly, in bounded memory.

>>> import lazydelta as ld
>>> ld.Table.open("/lake/trips")
Table('/lake/trips')
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lazydelta import errors
from lazydelta.changes import ChangeFeed
from lazydelta.config import Config, ReadOptions, ScanStrategy, WriteOptions
from lazydelta.expr import Predicate, col, lit
from lazydelta.outputs import plug_adapters
from lazydelta.scan import Scan
from lazydelta.scan.plan import ScanFile
from lazydelta.scanner import LazyDeltaScanner, LazyScanConfig
from lazydelta.snapshot import Snapshot
from lazydelta.table import Table, write

if TYPE_CHECKING:
    from lazydelta.interop import QueryBuilder
    from lazydelta.outputs import Adapters

logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.1.0"

__all__ = [
    "ChangeFeed",
    "Config",
    "LazyDeltaScanner",
    "LazyScanConfig",
    "Predicate",
    "QueryBuilder",
    "ReadOptions",
    "Scan",
    "ScanFile",
    "ScanStrategy",
    "Snapshot",
    "Table",
    "WriteOptions",
    "__version__",
    "col",
    "errors",
    "lit",
    "write",
]


def __getattr__(name: str) -> Any:
    """Fetch `QueryBuilder` when it is asked for: what it needs imports pandas where that is."""
    if name == "QueryBuilder":
        return import_module("lazydelta.interop").QueryBuilder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _interop() -> Adapters:
    """Load the adapters to other engines, for the same reason not before they are asked for."""
    adapters: Any = import_module("lazydelta.interop")
    return adapters


plug_adapters(_interop)
