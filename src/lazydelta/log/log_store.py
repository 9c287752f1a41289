"""The store of a table: immutable log objects are cached, all but the checkpoint hint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.log.file_names import LAST_CHECKPOINT, LOG_DIRECTORY, SIDECAR_DIRECTORY
from lazydelta.store import is_local, layers, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lazydelta.config import Config
    from lazydelta.store import Store
    from lazydelta.store.cloud import Credential

__all__ = ["open_log_store"]


def open_log_store(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    config: Config,
    *,
    credential: Credential | None = None,
    store: Any = None,
) -> Store:
    """Return the store of the table at a path or URL; no request is sent.

    Args:
        url: As in `open_store`, and so are the others.
        storage_options: Options of the store.
        config: Retries, observer and cache.
        credential: A credential provider.
        store: A client of the caller.
    """
    hint = f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}"
    opened = open_store(url, storage_options, credential=credential, store=store)
    sidecars = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"
    if is_local(opened) and config.observer is None:
        return opened
    return layers.cached_store(
        opened, config, directory=LOG_DIRECTORY, mutable=(hint,), unique=sidecars
    )
