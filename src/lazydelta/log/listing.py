"""What lies in `_delta_log`: one paged listing, from a version on, as `LogFile`s.

Names and nothing else: no file is opened, and which of them rebuild a version is decided by
`log.segment`. Listings may be unordered, stale or hold duplicates; the result is sorted and unique.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.log.file_names import LOG_DIRECTORY, LogFile, parse_name

if TYPE_CHECKING:
    from lazydelta.store import Store

__all__ = ["list_log"]


def list_log(
    store: Store, *, from_version: int = 0, to_version: int | None = None
) -> list[LogFile]:
    """Return the files of the log from one version to another, by version and name.

    Args:
        store: Where the table is.
        from_version: The first version wanted; the listing itself starts there.
        to_version: The last version wanted; later pages are not asked for.
    """
    after = f"{from_version:020d}" if from_version else None
    found: dict[str, LogFile] = {}
    for batch in store.list_from(LOG_DIRECTORY, after=after):
        past_the_end = False
        sizes = batch.column("size").to_pylist()
        times = batch.column("modified").cast("int64").to_pylist()
        for path, size, modified in zip(
            batch.column("path").to_pylist(), sizes, times, strict=True
        ):
            name = path.rsplit("/", 1)[-1]
            file = parse_name(name, size=size, modified_ms=modified)
            if file is None:
                # Versions are digits and sort before `_sidecars`, `_last_checkpoint` and the like.
                past_the_end = past_the_end or name[:1] > "9"
            elif to_version is not None and file.version > to_version:
                past_the_end = True
            elif file.version >= from_version:
                found[name] = file
        if past_the_end:
            break
    return sorted(found.values(), key=lambda file: (file.version, file.name))
