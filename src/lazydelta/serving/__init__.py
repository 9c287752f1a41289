"""Servers: scans of named tables over HTTP and Arrow Flight, for clients in any language.

A server is stateless: a client continues a scan at any server of the same tables with the resume
token of the last batch it received.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.serving.config import EXAMPLE_CONFIG, ServeConfig
    from lazydelta.serving.error_codes import error_code, error_kind
    from lazydelta.serving.logs import log_to
    from lazydelta.serving.process_memory import return_freed_memory
    from lazydelta.serving.request import ScanRequest
    from lazydelta.serving.server import RunningServer, serve
    from lazydelta.serving.service import ScanService
    from lazydelta.serving.streams import ScanStream, start_scan

__all__ = [
    "EXAMPLE_CONFIG",
    "RunningServer",
    "ScanRequest",
    "ScanService",
    "ScanStream",
    "ServeConfig",
    "error_code",
    "error_kind",
    "log_to",
    "return_freed_memory",
    "serve",
    "start_scan",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "config": ("EXAMPLE_CONFIG", "ServeConfig"),
        "error_codes": ("error_code", "error_kind"),
        "logs": ("log_to",),
        "process_memory": ("return_freed_memory",),
        "request": ("ScanRequest",),
        "server": ("RunningServer", "serve"),
        "service": ("ScanService",),
        "streams": ("ScanStream", "start_scan"),
    },
)
