"""Stores of Azure, S3 and Google Cloud Storage, and of fsspec; loaded when one is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.store.cloud.credentials import Credential, check_picklable
    from lazydelta.store.cloud.fsspec_store import FsspecStore
    from lazydelta.store.cloud.object_store import ObjectStore

__all__ = ["Credential", "FsspecStore", "ObjectStore", "check_picklable"]

__getattr__ = lazy_exports(
    __name__,
    {
        "credentials": ("Credential", "check_picklable"),
        "fsspec_store": ("FsspecStore",),
        "object_store": ("ObjectStore",),
    },
)
