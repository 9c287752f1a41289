"""Stores of Azure, S3 and Google Cloud Storage; loaded when such a URL is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.store.cloud.object_store import ObjectStore

__all__ = ["ObjectStore"]

__getattr__ = lazy_exports(__name__, {"object_store": ("ObjectStore",)})
