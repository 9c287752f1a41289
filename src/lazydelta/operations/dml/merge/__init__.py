"""MERGE: match the rows of a source with those of the table, then change them in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.dml.merge.key_index import KeyIndex

__all__ = ["KeyIndex"]

__getattr__ = lazy_exports(__name__, {"key_index": ("KeyIndex",)})
