"""The store of a table: immutable log objects are cached, all but the checkpoint hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.log.file_names import LAST_CHECKPOINT, LOG_DIRECTORY, SIDECAR_DIRECTORY
from lazydelta.store import open_store
from lazydelta.store.layers import cached_store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lazydelta.config import Config
    from lazydelta.store import Store

__all__ = ["open_log_store"]


def open_log_store(
    url: str | os.PathLike[str], storage_options: Mapping[str, str] | None, config: Config
) -> Store:
    """Return the store of the table at a path or URL; no request is sent."""
    hint = f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}"
    store = open_store(url, storage_options)
    sidecars = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"
    return cached_store(store, config, directory=LOG_DIRECTORY, mutable=(hint,), unique=sidecars)
