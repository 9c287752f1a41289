"""`Principal`: who a request is for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ANONYMOUS", "Principal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated client."""

    name: str


ANONYMOUS = Principal(name="anonymous")
"""Every client of a server without authentication."""
