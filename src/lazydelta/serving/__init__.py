"""Servers: scans of named tables over HTTP and Arrow Flight, for clients in any language.

A server is stateless: a client continues a scan at any server of the same tables with the resume
token of the last batch it received.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.serving.config import ServeConfig
    from lazydelta.serving.request import ScanRequest
    from lazydelta.serving.service import ScanService
    from lazydelta.serving.streams import ScanStream

__all__ = ["ScanRequest", "ScanService", "ScanStream", "ServeConfig"]

__getattr__ = lazy_exports(
    __name__,
    {
        "config": ("ServeConfig",),
        "request": ("ScanRequest",),
        "service": ("ScanService",),
        "streams": ("ScanStream",),
    },
)
