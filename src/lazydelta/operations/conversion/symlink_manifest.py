"""Symlink manifests: lists of data files for engines that read Parquet but not the Delta log.

The layout is that of Hive's SymlinkTextInputFormat and Delta Spark's GENERATE: a file `manifest`
with a path on each line, in `_symlink_format_manifest` or in its directory of each partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.errors import UnsupportedOperationError
from lazydelta.protocol.schemas import ADD
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds, partition_strings
from lazydelta.store import list_tree
from lazydelta.writer.files import partition_directory

if TYPE_CHECKING:
    from lazydelta.snapshot import SnapshotState

__all__ = ["MANIFEST_DIRECTORY", "write_symlink_manifests"]

MANIFEST_DIRECTORY = "_symlink_format_manifest"
_NAME = "manifest"
_FIELDS = pa.schema([ADD.field(n) for n in ("path", "partitionValues", "deletionVector")])
_PURGE = "its readers would return deleted rows: purge the table first"
_MAPPED = "files of a table with column mapping have other column names"


def write_symlink_manifests(snapshot: SnapshotState) -> list[str]:
    """Write the manifests of a version, delete those of partitions that are gone.

    Returns:
        The manifests, relative to the table.

    Raises:
        UnsupportedOperationError: The table has column mapping, or files with deletion vectors.
    """
    if snapshot.column_mapping_mode != "none":
        raise UnsupportedOperationError("a symlink manifest", _MAPPED)
    files = _files_by_directory(snapshot)
    written = []
    for directory, paths in files.items():
        path = "/".join(filter(None, (MANIFEST_DIRECTORY, directory, _NAME)))
        data = "".join(f"{line}\n" for line in sorted(paths)).encode()
        snapshot.store.write(path, data, overwrite=True)
        written.append(path)
    kept = set(written)
    for batch in list_tree(snapshot.store, within=MANIFEST_DIRECTORY):
        found = batch.column("path").to_pylist()
        stale = [p for p in found if p.endswith(f"/{_NAME}") and p not in kept]
        if stale:
            snapshot.store.delete(stale)
    return sorted(written)


def _files_by_directory(snapshot: SnapshotState) -> dict[str, list[str]]:
    """Return absolute, plain paths by the directory of their partition."""
    names = snapshot.partition_columns
    files: dict[str, list[str]] = {} if names else {"": []}
    for batch in live_adds(snapshot, _FIELDS, Pruner()):
        if batch.column("deletionVector").null_count < batch.num_rows:
            raise UnsupportedOperationError(
                "a symlink manifest of files with deletion vectors", _PURGE
            )
        strings = partition_strings(snapshot, batch.column("partitionValues"), names)
        values = [strings[name].to_pylist() for name in names]
        for row, path in enumerate(snapshot.resolver.keys(batch.column("path")).to_pylist()):
            directory = partition_directory(names, [column[row] for column in values])
            files.setdefault(directory, []).append(_absolute(snapshot.store.root, path))
    return files


def _absolute(root: str, path: str) -> str:
    absolute = path if path.startswith("/") or "://" in path else f"{root.rstrip('/')}/{path}"
    return f"file://{absolute}" if absolute.startswith("/") else absolute
