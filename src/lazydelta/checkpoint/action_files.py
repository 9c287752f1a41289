"""Files of a checkpoint: encoded row groups in, counted on the way and counted again at the end.

A file is a row of row groups, and each of those has one kind of action: the few that are not about
files first, where every reader looks for them, then adds, then tombstones. What is in a file is
checked against its own footer before the file appears.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.errors import InternalError
from lazydelta.parquet import JoinedFile
from lazydelta.store import open_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.checkpoint.action_encoding import ActionEncoder, ActionGroup
    from lazydelta.store import Output, Store

__all__ = ["ActionFile", "WrittenFile", "count_actions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file of a checkpoint that is in its place."""

    path: str
    bytes: int
    rows: int
    adds: int
    removes: int
    tags: Mapping[str, str] = field(default_factory=dict)


class ActionFile:
    """A Parquet file of actions that is being written; it appears when it is published.

    Args:
        store: Where the table is.
        path: Of the file.
        encoder: Encodes what will be appended.
    """

    def __init__(self, store: Store, path: str, encoder: ActionEncoder) -> None:
        self.path = path
        self.rows = self.adds = self.removes = 0
        self._output: Output = open_output(store, path)
        self._file = JoinedFile(self._output.file, encoder.schema, encoder.options)

    def append(self, group: ActionGroup) -> None:
        """Append a row group."""
        self._file.append(group.columns)
        self.rows += group.rows
        self.adds += group.adds
        self.removes += group.removes

    def publish(self, tags: Mapping[str, str] | None = None) -> WrittenFile:
        """End the file, hold its footer against what was given to it, and let it appear."""
        footer = pq.read_metadata(pa.BufferReader(self._file.close()))
        size = self._output.file.tell()
        counted, given = count_actions(footer), (self.rows, self.adds, self.removes)
        if counted != given:
            self.discard()
            raise InternalError(f"{self.path} has {counted} actions, and was given {given}")
        self._output.publish()
        rows, adds, removes = given
        return WrittenFile(
            path=self.path, bytes=size, rows=rows, adds=adds, removes=removes, tags=tags or {}
        )

    def discard(self) -> None:
        """Leave nothing behind."""
        self._output.discard()


def count_actions(footer: pq.FileMetaData) -> tuple[int, int, int]:
    """Return how many rows, adds and removes a file of a checkpoint has, by its footer."""
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    counts = []
    for column in ("add.path", "remove.path"):
        groups = (footer.row_group(at) for at in range(footer.num_row_groups))
        at = places[column]
        counts.append(sum(g.num_rows - g.column(at).statistics.null_count for g in groups))
    return footer.num_rows, counts[0], counts[1]
