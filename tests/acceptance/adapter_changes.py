"""Golden adapter for the change data feed alone: `check.py` checks what an adapter has."""

from __future__ import annotations

from lazydelta import Config
from lazydelta.changes import RequestedRange, find_changes
from lazydelta.store import open_store

NAME = "lazydelta-changes"


def changes(path, start, end):
    requested = RequestedRange(starting_version=start, ending_version=end)
    return find_changes(open_store(path), Config(), requested).to_arrow()
