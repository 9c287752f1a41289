"""Paths of the log: decoded, canonicalized and restricted to allowed roots."""

from __future__ import annotations

from lazydelta.protocol.paths.path_resolver import Location, PathResolver

__all__ = [
    "Location",
    "PathResolver",
]
