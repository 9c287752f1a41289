"""Builders of test tables."""

from __future__ import annotations

from lazydelta.testing import add, deletion_vector, remove
from tests.builders.checkpoint_writer import CheckpointOptions
from tests.builders.table_builder import TableBuilder

__all__ = ["CheckpointOptions", "TableBuilder", "add", "deletion_vector", "remove"]
