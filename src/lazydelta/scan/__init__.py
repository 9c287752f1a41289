"""Scanning a snapshot: the plan, the rows, the aggregates, pages and pins."""

from __future__ import annotations

from lazydelta.scan.pinning import Bundle, check_bundle, pin
from lazydelta.scan.row_feed import Feed, RowSource
from lazydelta.scan.scan import Scan, Where
from lazydelta.scan.verify import ChecksumReport, TableCheck, check_table

__all__ = [
    "Bundle",
    "ChecksumReport",
    "Feed",
    "RowSource",
    "Scan",
    "TableCheck",
    "Where",
    "check_bundle",
    "check_table",
    "pin",
]
