"""Scanning a snapshot: file planning, row reads, aggregates, resuming and pinning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.scan.pinning import Bundle, check_bundle, pin
    from lazydelta.scan.resume import Delivered, FilePage, FileRecords
    from lazydelta.scan.row_scan import RowBatches, RowScan
    from lazydelta.scan.scan import Scan, Where
    from lazydelta.scan.verify import ChecksumReport, TableCheck, check_table

__all__ = [
    "Bundle",
    "ChecksumReport",
    "Delivered",
    "FilePage",
    "FileRecords",
    "RowBatches",
    "RowScan",
    "Scan",
    "TableCheck",
    "Where",
    "check_bundle",
    "check_table",
    "pin",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "pinning": ("Bundle", "check_bundle", "pin"),
        "resume": ("Delivered", "FilePage", "FileRecords"),
        "row_scan": ("RowBatches", "RowScan"),
        "scan": ("Scan", "Where"),
        "verify": ("ChecksumReport", "TableCheck", "check_table"),
    },
)
