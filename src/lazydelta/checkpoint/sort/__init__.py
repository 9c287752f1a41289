"""The sort order of adds in a checkpoint, and an external sort in bounded memory.

Only the modules of `lazydelta.checkpoint` use it.
"""

from __future__ import annotations

__all__ = ()
