"""Files of the change feed: rows that a commit took away or brought, each with what became of it.

A commit that has any is told by them alone, so they hold every change of it, and nothing that was
only copied from one file to another.
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
from lazydelta.writer.data_files import CHANGE_DIRECTORY, write_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta._stream import Stream
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.writer.enforcement import Enforcement
    from lazydelta.writer.layout import DataLayout

__all__ = ["rows_of", "write_change_files"]

_FALSE = build_scalar(False, PrimitiveType("boolean"))


def rows_of(adds: pa.Table, snapshot: SnapshotState, intake: Enforcement) -> Stream[pa.RecordBatch]:
    """Return new rows as their files have them, which no version names yet.

    They are read back, and not told apart while they are written: who wrote them may be another
    process, and whether a file is cut is known to the one that commits.

    Args:
        adds: Of their files.
        snapshot: The version that the write was planned on.
        intake: What the write makes of the table.
    """
    after = replace(
        snapshot,
        protocol=intake.protocol,
        metadata=intake.metadata,
        schema=intake.schema,
        properties=TableProperties.parse(intake.metadata.configuration),
    )
    return read_files(Scan(after), adds.to_batches())


def write_change_files(
    batches: Iterable[pa.RecordBatch],
    kind: Literal["delete", "insert"],
    *,
    store: Store,
    layout: DataLayout,
) -> pa.Table:
    """Write rows as changes of one kind; return what names them, in the schema of `CHANGE_FILES`.

    As for data files, what was written is removed again if anything fails on the way.

    Args:
        batches: Rows in the table's logical columns and types.
        kind: What became of them.
        store: Of the table.
        layout: How the table wants its data files.
    """
    changes = (
        batch.append_column(CHANGE_COLUMNS[0], pa.repeat(string_scalar(kind), batch.num_rows))
        for batch in batches
    )
    files = write_data_files(
        changes, store=store, layout=layout.of_change_files(), directory=CHANGE_DIRECTORY
    )
    unchanging = pa.repeat(_FALSE, files.num_rows)
    at = files.schema.get_field_index("dataChange")
    told = files.set_column(at, files.schema.field(at), unchanging)
    return told.select(CHANGE_FILES.names)
