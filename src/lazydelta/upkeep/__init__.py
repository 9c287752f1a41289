"""What keeps a log fit for reading: checkpoints, version checksums, compacted commits.

All are made from a `FullReplay`, which only a whole segment gives, or advanced from what the last
one said. Derived and optional: whatever fails here, the table stays what its commits say.
"""

from __future__ import annotations

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
