"""What keeps a log fit for reading: checkpoints, version checksums, compacted commits.

All are made from a `FullReplay`, which only a whole segment gives, or advanced from what the last
one said. Derived and optional: whatever fails here, the table stays what its commits say.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazydelta.upkeep.checkpoint import CheckpointResult, write_checkpoint
    from lazydelta.upkeep.checkpoint_parts import CheckpointParts, PartFile, TombstonePart
    from lazydelta.upkeep.compaction import CompactionResult, compact_log
    from lazydelta.upkeep.hooks import post_commit_hooks

__all__ = [
    "CheckpointParts",
    "CheckpointResult",
    "CompactionResult",
    "PartFile",
    "TombstonePart",
    "compact_log",
    "post_commit_hooks",
    "write_checkpoint",
]

_PLACES = {
    "CheckpointParts": "checkpoint_parts",
    "CheckpointResult": "checkpoint",
    "CompactionResult": "compaction",
    "PartFile": "checkpoint_parts",
    "TombstonePart": "checkpoint_parts",
    "compact_log": "compaction",
    "post_commit_hooks": "hooks",
    "write_checkpoint": "checkpoint",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: whoever only reads tables does not wait for what writes them."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__package__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found
