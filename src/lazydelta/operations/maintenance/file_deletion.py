"""Delete files in parallel batches, and count what the store confirmed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lazydelta._parallel import ordered_map
from lazydelta.errors import StoreError, redact
from lazydelta.operations.maintenance import tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from lazydelta.store import Store

__all__ = ["Deletion", "delete_files"]


@dataclass(slots=True)
class Deletion:
    """What became of files that were to be deleted."""

    files: int = 0
    """Files whose deletion the store confirmed."""
    bytes: int = 0
    failed: int = 0
    directories: set[str] = field(default_factory=set)
    """Directories with a deleted file."""
    num_directories: int = 0
    failures: list[str] = field(default_factory=list)
    """Path and reason of some failures."""


def delete_files(
    store: Store,
    batches: Iterable[pa.RecordBatch],
    progress: Callable[[int], None] = lambda _: None,
) -> Deletion:
    """Delete the files of batches with `path` and `size`.

    Args:
        store: The table's store.
        batches: The files; their paths are plain and relative.
        progress: Receives the number of files that were deleted since its last call.
    """
    result = Deletion()
    delete = partial(_delete, store)
    for deleted, failures in ordered_map(delete, _chunks(batches), width=tuning.DELETE_THREADS):
        result.files += len(deleted)
        result.bytes += sum(size for _, size in deleted)
        result.directories.update(path.rpartition("/")[0] for path, _ in deleted)
        result.failed += len(failures)
        result.failures += failures[: tuning.LISTED_FAILURES - len(result.failures)]
        progress(len(deleted))
    result.num_directories = len(result.directories)
    return result


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[list[tuple[str, int]]]:
    """Yield path and size of the files in lists of one length, whatever that of the batches is."""
    files: list[tuple[str, int]] = []
    for batch in batches:
        sizes = (size or 0 for size in batch.column("size").to_pylist())
        files += zip(batch.column("path").to_pylist(), sizes, strict=True)
        while len(files) >= tuning.DELETED_TOGETHER:
            yield files[: tuning.DELETED_TOGETHER]
            files = files[tuning.DELETED_TOGETHER :]
    if files:
        yield files


def _delete(store: Store, files: list[tuple[str, int]]) -> tuple[list[tuple[str, int]], list[str]]:
    """Delete files at once, or one by one after a failure, to find out which are deleted."""
    try:
        store.delete([path for path, _ in files])
    except StoreError:
        pass
    else:
        return files, []
    deleted: list[tuple[str, int]] = []
    failures: list[str] = []
    in_a_row = 0
    for path, size in files:
        if in_a_row == tuning.FAILURES_IN_A_ROW:
            failures.append(f"{path}: not attempted, after failures of the files before it")
            continue
        try:
            store.delete([path])
        except StoreError as error:
            in_a_row += 1
            failures.append(f"{path}: {redact(error.reason)}")
        else:
            in_a_row = 0
            deleted.append((path, size))
    return deleted, failures
