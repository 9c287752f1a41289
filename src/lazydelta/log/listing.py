"""List `_delta_log` from a version, as `LogFile`s.

A listing may be unordered, stale or have duplicates; the result is sorted and unique. `log.segment`
decides which files build a version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.log.file_names import LOG_DIRECTORY, LogFile, parse_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.store import Store

__all__ = ["list_log"]


def list_log(
    store: Store,
    *,
    from_version: int = 0,
    to_version: int | None = None,
    skip_to: Callable[[], int] | None = None,
) -> list[LogFile]:
    """Return the log files of a range of versions, sorted by version and name.

    Args:
        store: The table's store.
        from_version: The first version; the listing starts there.
        to_version: The last version; later pages are not fetched.
        skip_to: Called once, after the first page: returns the first version that the caller needs.
            If it is not on that page, the listing starts again there.
    """
    after = f"{from_version:020d}" if from_version else None
    files: dict[str, LogFile] = {}
    for batch in store.list_from(LOG_DIRECTORY, after=after):
        if skip_to is not None:
            first, skip_to = skip_to(), None
            last_name = batch.column("path")[-1].as_py().rsplit("/", 1)[-1]
            if f"{first:020d}" > last_name:
                return list_log(store, from_version=first, to_version=to_version)
        past_the_end = False
        sizes = batch.column("size").to_pylist()
        times = batch.column("modified").cast("int64").to_pylist()
        for path, size, modified in zip(
            batch.column("path").to_pylist(), sizes, times, strict=True
        ):
            name = path.rsplit("/", 1)[-1]
            file = parse_name(name, size=size, modified_ms=modified)
            if file is None:
                # Versions are digits and sort before `_sidecars` and `_last_checkpoint`.
                past_the_end = past_the_end or name[:1] > "9"
            elif to_version is not None and file.version > to_version:
                past_the_end = True
            elif file.version >= from_version:
                files[name] = file
        if past_the_end:
            break
    return sorted(files.values(), key=lambda file: (file.version, file.name))
