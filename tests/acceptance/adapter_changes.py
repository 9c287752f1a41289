"""Golden adapter for the change data feed alone: `check.py` checks what an adapter has."""

from __future__ import annotations

from lazydelta import Config
from lazydelta.scan.changes import read_changes
from lazydelta.store import open_store

NAME = "lazydelta-changes"


def changes(path, start, end):
    with read_changes(open_store(path), Config(), start_version=start, end_version=end) as reader:
        return reader.read_all()
