"""The worker process behind liblazydelta, the C library in `capi/`.

The library starts `python -m lazydelta.ffi.worker` and speaks frames with it over a socket pair
(docs/adr/0043-c-abi.md). Nothing in Python imports this room.
"""

from __future__ import annotations

__all__: list[str] = []
