"""Resumable scans: tokens from which any process continues, pages, shares and file records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.scan.resume.delivery import Delivered, check_token, delivered, scan_digest
    from lazydelta.scan.resume.file_pages import FilePage, Pages
    from lazydelta.scan.resume.file_records import FileRecordBatches, FileRecords
    from lazydelta.scan.resume.pinned_segment import (
        first_token,
        resumed_snapshot,
        snapshot_to_resume,
    )
    from lazydelta.scan.resume.token import ResumeToken, digest, table_name

__all__ = [
    "Delivered",
    "FilePage",
    "FileRecordBatches",
    "FileRecords",
    "Pages",
    "ResumeToken",
    "check_token",
    "delivered",
    "digest",
    "first_token",
    "resumed_snapshot",
    "scan_digest",
    "snapshot_to_resume",
    "table_name",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "delivery": ("Delivered", "check_token", "delivered", "scan_digest"),
        "file_pages": ("FilePage", "Pages"),
        "file_records": ("FileRecordBatches", "FileRecords"),
        "pinned_segment": ("first_token", "resumed_snapshot", "snapshot_to_resume"),
        "token": ("ResumeToken", "digest", "table_name"),
    },
)
