"""All objects of a table's directory, from a parallel listing or from an inventory.

Batches have the columns of `LISTING_SCHEMA`, with canonical paths relative to the table. They are
in no order.
"""

from __future__ import annotations

import os
from contextlib import closing, nullcontext
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from lazydelta._arrow import from_mask, string_scalar, true_mask
from lazydelta._parallel import ordered_map, unordered_merge
from lazydelta.errors import ConfigError
from lazydelta.log import LOG_DIRECTORY
from lazydelta.operations.maintenance import tuning
from lazydelta.operations.maintenance.file_rules import inside_mask
from lazydelta.store import LISTING_SCHEMA, list_level, list_tree, lists_from_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.operations.maintenance.file_rules import PartitionScope
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

    _Source = Callable[[], Iterator[pa.RecordBatch]]

__all__ = [
    "INVENTORY",
    "check_inventory",
    "foreign_inventory",
    "inventory_objects",
    "list_range",
    "listed_objects",
    "listing_ranges",
    "own_objects",
]

INVENTORY = ("path", "length", "isDir", "modificationTime")
_LOG_START, _LOG_END = f"{LOG_DIRECTORY}/", f"{LOG_DIRECTORY}/~"
"""Names of log files start with a digit or `_`, which precede `~`."""


def listed_objects(
    store: Store, sample: Sequence[str] = (), scope: PartitionScope | None = None
) -> Iterator[pa.RecordBatch]:
    """List all objects outside the log that may be in scope, in parallel where that is possible.

    Stores that list from an offset list ranges of names at once. With others, and to leave
    partitions out, directories are listed at once.

    Args:
        store: The table's store.
        sample: Some paths of the table; they only balance the parts of the listing.
        scope: The partitions; None is all.

    Raises:
        UnsupportedOperationError: The store cannot list directories, but this listing needs it.
    """
    if scope is not None and scope.is_everything:
        scope = None
    in_directories = sum("/" in path for path in sample) > len(sample) / 2
    objects: list[pa.RecordBatch] = []
    if scope is not None or (in_directories and not lists_from_offsets(store)):
        directories, objects = _directories(store, scope)
        sources: list[_Source] = [partial(list_tree, store, within=name) for name in directories]
    else:
        chosen = sample if lists_from_offsets(store) else ()
        ranges = listing_ranges(chosen, tuning.LISTING_RANGES)
        sources = [partial(list_range, store, *ends) for ends in ranges]
    width = max(1, min(len(sources), tuning.LISTING_RANGES))
    return chain(objects, unordered_merge(sources, width=width, depth=tuning.LISTING_RANGES))


def _directories(
    store: Store, scope: PartitionScope | None
) -> tuple[list[str], list[pa.RecordBatch]]:
    """Return the directories to list, and the objects in those above them.

    Partitions that are not in scope are left out. A directory with a log of its own is listed.
    """
    chosen: list[str] = []
    objects: list[pa.RecordBatch] = []
    most = tuning.DIRECTORY_LEVELS if scope is None else scope.depth + 1
    level = [""]
    for _ in range(most):
        found = list(ordered_map(partial(list_level, store), level, width=tuning.LISTING_RANGES))
        below: list[str] = []
        for directory, (names, files) in zip(level, found, strict=True):
            if directory and f"{directory}/{LOG_DIRECTORY}" in names:
                chosen.append(directory)
            else:
                objects += files
                below += [name for name in names if name != LOG_DIRECTORY]
        if scope is None:
            level = below
            if len(chosen) + len(below) >= tuning.LISTING_RANGES:
                break
        else:
            partitions, level = scope.split(below)
            chosen += partitions
    return chosen + level, objects


def listing_ranges(sample: Sequence[str], most: int) -> list[tuple[str, str | None]]:
    """Return ranges of paths for `list_range`: without a sample, before and behind the log."""
    paths = sorted(set(sample))
    step = max(1, len(paths) // most)
    bounds = ["", *(path for path in paths[step::step] if not path.startswith(_LOG_START))]
    # The log is never listed: one range ends where it starts, the next one starts behind it.
    before = [bound for bound in bounds if bound < _LOG_START] + [_LOG_START]
    behind = [_LOG_END] + [bound for bound in bounds if bound > _LOG_END]
    return [*pairwise(before), *pairwise(behind), (behind[-1], None)]


def list_range(store: Store, after: str, last: str | None) -> Iterator[pa.RecordBatch]:
    """List the paths greater than `after`, up to `last`."""
    for batch in list_tree(store, after=after):
        if last is not None and batch.column("path")[-1].as_py() >= last:
            yield batch.filter(pc.less_equal(batch.column("path"), string_scalar(last)))
            return
        yield batch


def inventory_objects(snapshot: SnapshotState, inventory: Any) -> Iterator[pa.RecordBatch]:
    """Read an inventory: columns `path`, `length`, `isDir`, `modificationTime` in milliseconds.

    Paths are relative to the table or absolute, and not percent-encoded. Objects of other
    directories are ignored, but at least one object must be the table's.

    Args:
        snapshot: A version of the table.
        inventory: A Parquet or CSV file, or Arrow data.

    Raises:
        ConfigError: It is not an inventory, or one of another table.
    """
    objects = inside = 0
    for listed in _inventory_batches(inventory):
        batch = own_objects(snapshot, listed)
        objects, inside = objects + listed.num_rows, inside + batch.num_rows
        yield batch
    if objects and not inside:
        raise foreign_inventory(snapshot, objects)


def foreign_inventory(snapshot: SnapshotState, objects: int) -> ConfigError:
    """Return the error about an inventory of another table."""
    reason = f"none of its {objects} objects is in {snapshot.store.root}: it is of another table"
    return ConfigError("inventory", reason)


def own_objects(snapshot: SnapshotState, listed: pa.RecordBatch) -> pa.RecordBatch:
    """Return the objects of a batch of an inventory that are in the table's directory.

    Raises:
        ConfigError: A column is missing, or has another type or a null.
    """
    listed = _checked(listed)
    batch = listed.filter(from_mask(~true_mask(listed.column("isDir"))))
    paths = snapshot.resolver.plain_keys(batch.column("path"))
    is_own = inside_mask(paths)
    columns = [paths, batch.column("length"), batch.column("modificationTime")]
    columns = [column.filter(is_own) for column in columns]
    return pa.RecordBatch.from_arrays(
        [column.cast(kind) for column, kind in zip(columns, LISTING_SCHEMA.types, strict=True)],
        schema=LISTING_SCHEMA,
    )


def _inventory_batches(inventory: Any) -> Iterator[pa.RecordBatch]:
    reader, close = _inventory_reader(inventory)
    with close:
        check_inventory(reader.schema.names)
        yield from reader


def check_inventory(names: Sequence[str]) -> None:
    """Refuse columns that are not those of an inventory.

    Raises:
        ConfigError: A column is missing.
    """
    missing = [name for name in INVENTORY if name not in names]
    if missing:
        raise ConfigError("inventory", f"has no column {', '.join(missing)}")


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the four columns of a batch in the types of Delta Spark."""
    kinds = (pa.string(), pa.int64(), pa.bool_(), pa.int64())
    try:
        columns = [
            batch.column(name).cast(kind) for name, kind in zip(INVENTORY, kinds, strict=True)
        ]
    except pa.ArrowInvalid as error:
        raise ConfigError("inventory", f"has a column of another type: {error}") from None
    if any(column.null_count for column in (columns[0], columns[3])):
        raise ConfigError("inventory", "has an object without path or modificationTime")
    return pa.RecordBatch.from_arrays(columns, INVENTORY)


def _inventory_reader(inventory: Any) -> tuple[pa.RecordBatchReader, Any]:
    """Return a reader, and what closes it."""
    if not isinstance(inventory, str | os.PathLike):
        if not hasattr(inventory, "__arrow_c_stream__"):
            kind = type(inventory).__name__
            reason = f"must be the path of a Parquet or CSV file, or Arrow data, not {kind}"
            raise ConfigError("inventory", reason)
        return pa.RecordBatchReader.from_stream(inventory), nullcontext()
    path = os.fspath(inventory)
    try:
        if path.lower().endswith((".csv", ".csv.gz")):
            reader = csv.open_csv(path)
            return reader, closing(reader)
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError("inventory", f"cannot be read: {error}") from None
    batches = file.iter_batches(columns=[n for n in INVENTORY if n in file.schema_arrow.names])
    schema = pa.schema([f for f in file.schema_arrow if f.name in INVENTORY])
    return pa.RecordBatchReader.from_batches(schema, batches), closing(file)
