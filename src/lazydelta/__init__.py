"""lazydelta: Delta tables of any size, planned newest first, exactly, in bounded memory.

>>> import lazydelta as ld
>>> ld.Table.open("/lake/trips")
Table('/lake/trips')
"""

from __future__ import annotations

import logging

from lazydelta import errors
from lazydelta.config import Config
from lazydelta.expr import Predicate, col, lit
from lazydelta.scan import Scan, ScanFile
from lazydelta.scanner import LazyDeltaScanner, LazyScanConfig
from lazydelta.snapshot import Snapshot
from lazydelta.table import Table

logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.1.0"

__all__ = [
    "Config",
    "LazyDeltaScanner",
    "LazyScanConfig",
    "Predicate",
    "Scan",
    "ScanFile",
    "Snapshot",
    "Table",
    "__version__",
    "col",
    "errors",
    "lit",
]
