"""Aggregates answered from file statistics: count, min/max, distinct partitions."""

from __future__ import annotations

__all__ = []
