"""The worker process behind liblazydelta, the C library in `capi/`.

The library starts `python -m lazydelta.ffi.worker` and exchanges frames with it over a socket pair
(docs/adr/0043-c-abi.md). Nothing else in Python imports this room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.ffi.arrow_frames import batch_frame, schema_frame

__all__ = ["batch_frame", "schema_frame"]

__getattr__ = lazy_exports(__name__, {"arrow_frames": ("batch_frame", "schema_frame")})
