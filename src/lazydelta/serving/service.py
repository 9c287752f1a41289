"""`ScanService`: what the HTTP and the Flight server share."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError
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

    def reload_access(self, config: ServeConfig) -> list[str]:
        """Take over principals, and what they may read, from the next request on.

        Running scans continue.

        Returns:
            The other settings that differ: they need another process.

        Raises:
            ConfigError: Authentication would begin or end.
        """
        if bool(config.principals) != self.access.required:
            raise ConfigError("principals", "of a running server cannot all be added or removed")
        self.access.replace(config)
        old, new = self.config.without_access(), config.without_access()
        names = [item.name for item in fields(old) if item.name != "insecure"]
        return [name for name in names if getattr(old, name) != getattr(new, name)]
