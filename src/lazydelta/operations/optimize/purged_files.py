"""Files that REORG rewrites: with deleted rows, or with columns that the table has dropped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import from_mask
from lazydelta._parallel import ordered_map
from lazydelta.operations.row_tracking import RowTracking
from lazydelta.parquet import DataFile
from lazydelta.scan.read import FileStores, threads_for
from lazydelta.schema import ArrayType, MapType, StructType
from lazydelta.schema.mapping import physical_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.schema import DataType
    from lazydelta.snapshot import SnapshotState

__all__ = ["to_purge"]


def to_purge(snapshot: SnapshotState, files: pa.Table) -> pa.Table:
    """Return the files to rewrite.

    Columns can only be dropped under column mapping; then the footers of the other files are read.
    """
    has_vector = files.column("deletionVector").combine_chunks().is_valid()
    vectored, others = files.filter(has_vector), files.filter(pc.invert(has_vector))
    if snapshot.column_mapping_mode == "none" or not others.num_rows:
        return vectored
    stores = FileStores(snapshot.store, snapshot.config)
    has_dropped = partial(_has_dropped_columns, snapshot, stores)
    width = threads_for(snapshot.store, None)
    found = ordered_map(has_dropped, others.column("path").to_pylist(), width=width)
    dropped = others.filter(from_mask(np.fromiter(found, np.bool_, others.num_rows)))
    return pa.concat_tables([vectored, dropped]).combine_chunks()


def _has_dropped_columns(snapshot: SnapshotState, stores: FileStores, path: str) -> bool:
    location = snapshot.resolver.to_open(path)
    limit = snapshot.config.read.max_inflated_bytes
    file = DataFile(stores.store(location), location.path, max_decoded_bytes=limit)
    try:
        stored = file.schema
    finally:
        file.close()
    tracking = RowTracking.of(snapshot)
    known = {tracking.row_id, tracking.row_commit_version}
    columns = pa.struct([field for field in stored if field.name not in known])
    return any(_unknown(columns, snapshot.schema, snapshot.column_mapping_mode))


def _unknown(stored: pa.DataType, kind: DataType, mode: str) -> Iterator[str]:
    """Yield the stored fields that the table's type does not have."""
    if isinstance(kind, StructType) and pt.is_struct(stored):
        by_name = {physical_name(field, mode): field for field in kind}
        for part in stored:
            field = by_name.get(part.name)
            if field is None:
                yield part.name
            else:
                yield from _unknown(part.type, field.type, mode)
    elif isinstance(kind, ArrayType) and pt.is_list(stored):
        yield from _unknown(stored.value_type, kind.element, mode)
    elif isinstance(kind, MapType) and pt.is_map(stored):
        yield from _unknown(stored.key_type, kind.key, mode)
        yield from _unknown(stored.item_type, kind.value, mode)
