"""`ScanService`: what the HTTP and the Flight server share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.serving.access import Access
from lazydelta.serving.exposition import ServerMetrics
from lazydelta.serving.limits import Admission
from lazydelta.serving.streams import ScanStreams
from lazydelta.serving.tables import ServedTables

if TYPE_CHECKING:
    from lazydelta.serving.config import ServeConfig

__all__ = ["ScanService"]


class ScanService:
    """One server process: its configuration, and the parts that answer requests."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.access = Access(config)
        self.tables = ServedTables(config, self.access)
        self.admission = Admission(config.limits)
        self.metrics = ServerMetrics(self.admission)
        self.streams = ScanStreams(self.tables, self.admission, config)
