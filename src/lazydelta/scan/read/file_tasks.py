"""Add actions -> file tasks: what reading a file needs, with its partition values typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lazydelta._arrow import true_mask
from lazydelta.expressions import evaluate
from lazydelta.expressions.nodes import Column
from lazydelta.formats import DeletionVectorGroup
from lazydelta.scan import tuning
from lazydelta.scan.plan.log_positions import START, Position
from lazydelta.scan.plan.partition_arrays import partition_columns
from lazydelta.scan.read.chosen_rows import ChosenVectors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.scan.read.chosen_rows import ChosenRows
    from lazydelta.scan.read.file_stores import FileStores
    from lazydelta.scan.read.row_projection import RowProjection
    from lazydelta.snapshot import SnapshotState

__all__ = ["ADD_FIELDS", "IDENTITY_FIELD", "ROW_TRACKING_FIELDS", "FileTask", "FileTasks"]

ADD_FIELDS = ("path", "size", "partitionValues", "deletionVector")
"""The fields of an add action that reading its file needs."""
IDENTITY_FIELD = "modificationTime"
"""With path and size it identifies a file in the disk cache; optional."""
ROW_TRACKING_FIELDS = ("baseRowId", "defaultRowCommitVersion")


@dataclass(frozen=True, slots=True, eq=False)
class FileTask:
    """One file to read."""

    path: str
    shown_path: str
    """The path, decoded."""
    size: int | None
    vectors: DeletionVectorGroup | ChosenVectors
    vector_index: int
    """Index of the file's deletion vector in the group."""
    constants: Mapping[str, pa.Scalar]
    """Partition values by column."""
    has_vector: bool
    place: Position
    """The position before the file, if the plan has positions."""
    first_group: int = 0
    """The row group to start at."""
    base_row_id: int | None = None
    row_commit_version: int | None = None
    modified: int | None = None
    """Modification time in the log."""


class FileTasks:
    """Makes the file tasks of a read.

    Args:
        snapshot: The table.
        projection: The columns of the read.
        exact: The part of the predicate that partition values decide; None if there is none.
        stores: The stores of deletion vectors.
        rows: The rows to read of some files; None reads all.
    """

    def __init__(
        self,
        snapshot: SnapshotState,
        projection: RowProjection,
        exact: Predicate | None,
        stores: FileStores,
        rows: ChosenRows | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._rows = rows
        self._exact = exact
        self._stores = stores
        self._tracks_rows = projection.tracks_rows
        self._columns = set(projection.partition_columns)
        if exact is not None:
            self._columns |= {node.path[0] for node in exact.walk() if isinstance(node, Column)}

    def of(self, adds: pa.RecordBatch, end: Position = START) -> Iterator[FileTask]:
        """Yield the files of add actions whose partition values match.

        Args:
            adds: The add actions.
            end: The position after them.
        """
        rows = np.arange(end.skip - adds.num_rows, end.skip)
        values = partition_columns(self._snapshot, adds.column("partitionValues"), self._columns)
        if self._exact is not None:
            all_values = values
            keep = evaluate(self._exact, lambda column: all_values[column.path[0]], adds.num_rows)
            adds, rows = adds.filter(keep), rows[true_mask(keep)]
            values = {name: array.filter(keep) for name, array in values.items()}
        places = [Position(end.unit, row) for row in rows.tolist()]
        for start in range(0, adds.num_rows, tuning.VECTORS_PER_FETCH):
            part = adds.slice(start, tuning.VECTORS_PER_FETCH)
            part_values = {name: array.slice(start) for name, array in values.items()}
            yield from self._part(part, part_values, places[start:])

    def _part(
        self, adds: pa.RecordBatch, values: Mapping[str, pa.Array], places: Sequence[Position]
    ) -> Iterator[FileTask]:
        resolver = self._snapshot.resolver
        paths, sizes = adds.column("path").to_pylist(), adds.column("size").to_pylist()
        shown_paths = resolver.decoded(adds.column("path")).to_pylist()
        vectors = adds.column("deletionVector").to_pylist()
        stored = DeletionVectorGroup(
            list(zip(shown_paths, vectors, strict=True)), resolver, self._stores.store
        )
        rows = self._rows
        group = stored if rows is None else ChosenVectors(stored, shown_paths, rows)
        tracking: list[Sequence[Any]] = [[None] * len(paths)] * 2
        if self._tracks_rows:
            tracking = [adds.column(name).to_pylist() for name in ROW_TRACKING_FIELDS]
        modified: Sequence[int | None] = [None] * len(paths)
        if IDENTITY_FIELD in adds.schema.names:
            modified = adds.column(IDENTITY_FIELD).to_pylist()
        for index, path in enumerate(paths):
            constants = {name: array[index] for name, array in values.items()}
            yield FileTask(
                path, shown_paths[index], sizes[index], group, index, constants,
                vectors[index] is not None or rows is not None, places[index], 0,
                tracking[0][index], tracking[1][index], modified[index],
            )  # fmt: skip
