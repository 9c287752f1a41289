"""The leaf columns of a file: which of them hold what is asked for, by their names.

Knows footers; reads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.parquet.row_group_filter import leaf_columns, leaves_below

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["Leaves", "codecs_of"]


class Leaves:
    """The leaves of a file, by their places in it.

    Raises:
        ValueError: A name is no text.
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self.columns = leaf_columns(metadata)
        """What the footer says of each."""
        self.paths = [self.columns.column(at).path for at in range(len(self.columns))]
        """Their names, from the top level down."""

    def of(self, columns: Sequence[str]) -> list[int]:
        """Return where the leaves of some columns are."""
        return leaves_below(self.paths, columns)

    def around(self, columns: Collection[str]) -> list[int]:
        """Return the leaves of the columns, and those beside them in the same struct or list."""
        roots = {name.partition(".")[0] for name in columns}
        return [at for at, path in enumerate(self.paths) if path.partition(".")[0] in roots]

    def fields(self, leaves: Sequence[int], schema: pa.Schema) -> list[pa.Field]:
        """Return those of the file's fields that are leaves, of some."""
        names = {self.paths[at] for at in leaves}
        return [field for field in schema if field.name in names]


def codecs_of(
    metadata: pq.FileMetaData, leaves: Sequence[int], row_groups: Sequence[int]
) -> set[str]:
    """Return how some leaves of a file are compressed."""
    groups = [metadata.row_group(at) for at in row_groups]
    return {group.column(at).compression for group in groups for at in leaves}
