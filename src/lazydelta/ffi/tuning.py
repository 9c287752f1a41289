"""Numbers that tune the worker process."""

from __future__ import annotations

OPEN_TABLES_AT_MOST = 64
"""Tables whose handles are kept; each has the last snapshot of a remote table."""

OBJECTS_PER_COLLECTION = 100_000
"""A scan creates few Python objects and no cycles: the garbage collector need not run often."""

BUFFER_ALIGNMENT = 64
"""Of the memory of a batch, as the Arrow specification recommends."""
