"""Leaf columns of a file, by path. Needs the footer only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa

__all__ = [
    "LeafColumns",
    "chunk_ranges",
    "compression_codecs",
    "int96_leaves",
    "leaf_columns",
    "leaves_below",
]


def leaf_columns(metadata: pq.FileMetaData) -> pq.ParquetSchema:
    """Return the leaf columns of a file.

    Not `metadata.schema`: the metadata caches it and both reference each other until the garbage
    collector runs, which cost a fifth of the peak memory of a long read.
    """
    return pq.ParquetSchema(metadata)


def int96_leaves(metadata: pq.FileMetaData) -> frozenset[str]:
    """Return the paths of the leaves that hold INT96 timestamps."""
    columns = leaf_columns(metadata)
    leaves = [columns.column(index) for index in range(len(columns))]
    return frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96")


def leaves_below(paths: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return the indices of the leaves that are columns of a list, or inside of them.

    Looks up the prefixes of each path: with thousands of columns, comparing every path with every
    column would take longer than decoding.

    >>> leaves_below(["a", "ab", "s.x", "s.y.z"], ["a", "s.y"])
    [0, 3]
    """
    names = set(columns)
    return [
        index
        for index, path in enumerate(paths)
        if path in names
        or any(path[:end] in names for end, character in enumerate(path) if character == ".")
    ]


class LeafColumns:
    """The leaf columns of a file by index.

    Raises:
        ValueError: A name is not UTF-8.
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self.columns = leaf_columns(metadata)
        """Their descriptions in the footer."""
        self.paths = [self.columns.column(index).path for index in range(len(self.columns))]

    def below(self, columns: Sequence[str]) -> list[int]:
        """Return the leaves of columns."""
        return leaves_below(self.paths, columns)

    def siblings(self, columns: Collection[str]) -> list[int]:
        """Return the leaves of columns, and all others of the same top-level columns."""
        roots = {name.partition(".")[0] for name in columns}
        return [index for index, path in enumerate(self.paths) if path.partition(".")[0] in roots]

    def fields(self, leaves: Sequence[int], schema: pa.Schema) -> list[pa.Field]:
        """Return the fields of the file's schema that are leaves themselves."""
        names = {self.paths[index] for index in leaves}
        return [field for field in schema if field.name in names]


def chunk_ranges(
    metadata: pq.FileMetaData, leaves: Sequence[int], row_groups: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the byte ranges of column chunks in the file."""
    ranges = []
    for group in row_groups:
        row_group = metadata.row_group(group)
        for leaf in leaves:
            chunk = row_group.column(leaf)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            ranges.append((start, start + chunk.total_compressed_size))
    return ranges


def compression_codecs(
    metadata: pq.FileMetaData, leaves: Sequence[int], row_groups: Sequence[int]
) -> set[str]:
    """Return the codecs of column chunks."""
    groups = [metadata.row_group(index) for index in row_groups]
    return {group.column(index).compression for group in groups for index in leaves}
