"""Scanning a snapshot: plan, run, and the files that come out."""

from lazydelta.scan.files import DeletionVector, ScanFile
from lazydelta.scan.metrics import Explanation
from lazydelta.scan.request import Scan, Where
from lazydelta.scan.stream import Stream

__all__ = ["DeletionVector", "Explanation", "Scan", "ScanFile", "Stream", "Where"]
