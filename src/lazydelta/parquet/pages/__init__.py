"""Pages of a column chunk: headers, page index, row ranges that may match."""

from __future__ import annotations

__all__ = []
