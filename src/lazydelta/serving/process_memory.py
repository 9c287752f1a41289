"""Memory settings of a process that only serves: freed memory returns to the system."""

from __future__ import annotations

import ctypes
import os
import sys

from lazydelta.serving import tuning

__all__ = ["return_freed_memory"]

_PR_SET_THP_DISABLE = 41
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def return_freed_memory() -> None:
    """Keep less freed memory for each thread; only for a process of our own, before its threads.

    By default Arrow's pool, the arenas of the C library and transparent huge pages keep 10 to 40 MB
    for each of many scans that wait for their clients.
    """
    # Arrow's own code has a pool beside that of Python, chosen when Arrow is loaded.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
        if hasattr(library, "mallopt"):  # glibc has it, others do not
            library.mallopt(_M_ARENA_MAX, tuning.ARENAS_AT_MOST)
            library.mallopt(_M_MMAP_THRESHOLD, tuning.MAPPED_BYTES)
