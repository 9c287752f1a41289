"""Scanning a snapshot: plan, run, and the files that come out."""

from __future__ import annotations

from lazydelta.scan.bundle import Bundle, check_bundle, pin
from lazydelta.scan.changes import read_changes
from lazydelta.scan.explain import Explanation
from lazydelta.scan.files import DeletionVector, ScanFile
from lazydelta.scan.read import ReadOptions
from lazydelta.scan.request import Scan, Where
from lazydelta.scan.stream import Stream
from lazydelta.scan.verify import ChecksumReport, TableCheck, check_table, verify_checksum

__all__ = [
    "Bundle",
    "ChecksumReport",
    "DeletionVector",
    "Explanation",
    "ReadOptions",
    "Scan",
    "ScanFile",
    "Stream",
    "TableCheck",
    "Where",
    "check_bundle",
    "check_table",
    "pin",
    "read_changes",
    "verify_checksum",
]
