"""Resumable scans: tokens from which any process continues, pages, shares and file records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.scan.resume.delivery import Delivered, opened, sliced
    from lazydelta.scan.resume.file_pages import FilePage
    from lazydelta.scan.resume.file_records import FileRecords
    from lazydelta.scan.resume.token import ResumeToken, digest

__all__ = [
    "Delivered",
    "FilePage",
    "FileRecords",
    "ResumeToken",
    "digest",
    "opened",
    "sliced",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "delivery": ("Delivered", "opened", "sliced"),
        "file_pages": ("FilePage",),
        "file_records": ("FileRecords",),
        "token": ("ResumeToken", "digest"),
    },
)
