"""Return unused memory to the operating system."""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa

__all__ = ["release_memory"]


def release_memory() -> None:
    """Release the free memory of Arrow's pool and of the C library; takes milliseconds."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, others do not
        if trim is not None:
            trim(0)
