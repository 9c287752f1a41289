"""Tuning numbers of the change data feed."""

from __future__ import annotations

FILES_PER_BATCH = 32
"""Files of a commit whose partition values and deletion vectors are decoded together."""
BLOCK_BYTES = 8 << 20
"""Bytes of a large commit that are decoded together."""
MAX_PREFETCH_BYTES = 1 << 20
"""Commits up to this size are prefetched; larger ones are streamed when they are reached."""
BYTES_PER_ACTION = 512
"""Estimated size of a file action in a commit."""
FILES_PER_SPLIT = 64
"""Files that one task reads."""
COMMITS_PER_SPLIT = 64
"""Maximum number of commits that one task reads."""
MAX_SPLITS_PER_COMMIT = 256
"""Every task reads the whole commit, so a huge commit is not split further."""
MAX_MISSING_VERSIONS = 1000
"""Missing versions that an error lists."""
