"""Stores of Azure, S3 and Google Cloud Storage, and of fsspec; loaded when one is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.store.cloud.credentials import Credential, check_picklable
    from lazydelta.store.cloud.fsspec_store import FsspecStore
    from lazydelta.store.cloud.object_store import ObjectStore
    from lazydelta.store.cloud.option_names import canonical_name
    from lazydelta.store.cloud.storage_options import client_options, own_credentials
    from lazydelta.store.cloud.store_url import StoreUrl, parse_store_url

__all__ = [
    "Credential",
    "FsspecStore",
    "ObjectStore",
    "StoreUrl",
    "canonical_name",
    "check_picklable",
    "client_options",
    "own_credentials",
    "parse_store_url",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "credentials": ("Credential", "check_picklable"),
        "fsspec_store": ("FsspecStore",),
        "object_store": ("ObjectStore",),
        "option_names": ("canonical_name",),
        "storage_options": ("client_options", "own_credentials"),
        "store_url": ("StoreUrl", "parse_store_url"),
    },
)
