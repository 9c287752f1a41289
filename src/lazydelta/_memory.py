"""Memory that nothing is in, given back to the system."""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa

__all__ = ["release_memory"]


def release_memory() -> None:
    """Give back what Arrow and the C library keep for later; it takes milliseconds."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, others do not
        if trim is not None:
            trim(0)
