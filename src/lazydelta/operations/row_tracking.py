"""Row tracking of rows that move to new files: their ids are read and written with them.

Data files store the ids of such rows in two columns that the table's schema does not have. Rows are
read with these columns, and written with them: every operation that copies or updates rows uses
`read_options` and `layout`. Without row tracking both return their argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.errors import SchemaError
from lazydelta.protocol.features import supported_features

if TYPE_CHECKING:
    from lazydelta.config import ReadOptions
    from lazydelta.snapshot import SnapshotState
    from lazydelta.writer.files import DataLayout

__all__ = ["NO_ROW_TRACKING", "RowTracking"]

_PREFIX = "delta.rowTracking.materialized"
_NAMES = (f"{_PREFIX}RowIdColumnName", f"{_PREFIX}RowCommitVersionColumnName")


@dataclass(frozen=True, slots=True)
class RowTracking:
    """The materialized columns of a table, or none if row tracking is not enabled."""

    row_id: str | None = None
    """Name of the column of row ids; null gives a row a fresh id."""
    row_commit_version: str | None = None
    """Name of the column of row commit versions; null is the version of the new commit."""

    @classmethod
    def of(cls, snapshot: SnapshotState) -> RowTracking:
        """Return the materialized columns of a table.

        Raises:
            SchemaError: Row tracking is enabled, and a property that names a column is missing.
        """
        is_supported = "rowTracking" in supported_features(snapshot.protocol)
        if not (is_supported and snapshot.properties.row_tracking):
            return cls()
        names = [snapshot.metadata.configuration.get(key) for key in _NAMES]
        for key, name in zip(_NAMES, names, strict=True):
            if not name:
                raise SchemaError(f"the table has row tracking, but not the property {key}")
        return cls(*names)

    @property
    def is_enabled(self) -> bool:
        """Whether rows keep their ids in new files."""
        return self.row_id is not None

    def read_options(self, options: ReadOptions) -> ReadOptions:
        """Return options that read rows together with their materialized columns."""
        return replace(
            options,
            row_id_column=self.row_id,
            row_commit_version_column=self.row_commit_version,
        )

    def layout(self, layout: DataLayout) -> DataLayout:
        """Return the layout of files that store the materialized columns."""
        if self.row_id is None or self.row_commit_version is None:
            return layout
        return layout.with_file_columns(self.row_id, self.row_commit_version)

    def updated(self, rows: pa.RecordBatch, ids: pa.Array | None) -> pa.RecordBatch:
        """Return new versions of rows with the ids of the old ones.

        Their row commit version is null: it is that of the commit.

        Args:
            rows: The new rows, in the table's schema.
            ids: The row id of each; null for inserted rows, and None if all are inserted.
        """
        if self.row_id is None or self.row_commit_version is None:
            return rows
        nulls = pa.nulls(rows.num_rows, pa.int64())
        rows = rows.append_column(self.row_id, nulls if ids is None else ids)
        return rows.append_column(self.row_commit_version, nulls)


NO_ROW_TRACKING = RowTracking()
"""Rows without ids: of a table that does not track them, or of change data files."""
