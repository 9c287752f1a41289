"""Metadata aggregates: count, min/max and distinct partitions from file statistics."""

from __future__ import annotations

__all__ = []
