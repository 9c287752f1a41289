"""Change data files: the deleted and inserted rows of a commit, with a `_change_type` column.

Readers of the change feed use only these files if a commit has any. They therefore hold every
change of the commit, and no row that was only copied from one data file to another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lazydelta._arrow import string_scalar
from lazydelta.protocol import TableProperties
from lazydelta.protocol.schemas import CHANGE_COLUMNS
from lazydelta.scan import Scan
from lazydelta.scan.read import read_files
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar
from lazydelta.transaction import CHANGE_FILES
from lazydelta.writer.files.data_files import CHANGE_DIRECTORY, write_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta._stream import Stream
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.writer.columns.schema_evolution import TableDefinition
    from lazydelta.writer.enforcement.enforcement import Enforcement
    from lazydelta.writer.files.layout import DataLayout

__all__ = ["ChangeType", "read_added_rows", "write_change_files"]

ChangeType = Literal["delete", "insert", "update_preimage", "update_postimage"]

_FALSE = build_scalar(False, PrimitiveType("boolean"))


def read_added_rows(
    adds: pa.Table, snapshot: SnapshotState, enforcement: Enforcement | TableDefinition
) -> Stream[pa.RecordBatch]:
    """Read the rows of data files that are not committed yet.

    Change data files are written from data files, because another process may have written
    those, and only the committing process knows whether the commit needs change data files.

    Args:
        adds: The add actions of the files.
        snapshot: The version that the write was planned on.
        enforcement: Has the table's schema, protocol and metadata after the write.
    """
    after = replace(
        snapshot,
        protocol=enforcement.protocol,
        metadata=enforcement.metadata,
        schema=enforcement.schema,
        properties=TableProperties.parse(enforcement.metadata.configuration),
    )
    return read_files(Scan(after), adds.to_batches())


def write_change_files(
    batches: Iterable[pa.RecordBatch],
    kind: ChangeType | None,
    *,
    store: Store,
    layout: DataLayout,
) -> pa.Table:
    """Write change data files; return their cdc actions in the schema of `CHANGE_FILES`.

    If a write fails, the files written so far are deleted.

    Args:
        batches: Rows in the table's logical schema.
        kind: The `_change_type` of all rows; None if it is their last column.
        store: The table's store.
        layout: The layout of the table's data files.
    """
    changes = batches
    if kind is not None:
        changes = (
            batch.append_column(CHANGE_COLUMNS[0], pa.repeat(string_scalar(kind), batch.num_rows))
            for batch in batches
        )
    files = write_data_files(
        changes, store=store, layout=layout.for_change_files(), directory=CHANGE_DIRECTORY
    )
    no_data_change = pa.repeat(_FALSE, files.num_rows)
    index = files.schema.get_field_index("dataChange")
    files = files.set_column(index, files.schema.field(index), no_data_change)
    return files.select(CHANGE_FILES.names)
