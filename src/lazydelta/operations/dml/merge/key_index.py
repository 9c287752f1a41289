"""Equality matches between the key columns of a source and those of target rows: exact pairs.

The index has the sorted hashes of the source keys. A bitmap by the top bits of the hash rules out
most target rows that have no match, a directory by the same bits finds a hash in about two steps,
and equal hashes are confirmed by the values. Equality is that of Spark: NaN = NaN, -0.0 = 0.0, and
a null matches nothing, unless the column is null-safe: then it matches a null.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta.operations.dml.merge import tuning
from lazydelta.operations.dml.merge.hash_table import HashTable
from lazydelta.operations.dml.merge.key_hash import equal_rows, hash_rows, key_column, plain_array
from lazydelta.operations.dml.merge.key_ranges import KeyRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.operations.dml.merge.key_hash import KeyColumn

__all__ = ["KeyIndex"]

_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class KeyIndex:
    """The keys of one chunk of a source; built by `KeyIndex.build`."""

    keys: tuple[pa.Array, ...]
    null_safe: tuple[bool, ...]
    columns: tuple[KeyColumn, ...]
    table: HashTable

    @classmethod
    def build(
        cls, keys: Sequence[pa.Array | pa.ChunkedArray], null_safe: Sequence[bool]
    ) -> KeyIndex:
        """Index the keys of a source.

        Holds the key columns, without a copy if they are arrays, and about 20 bytes a row.

        Args:
            keys: The key columns: not nested, of the same types as those of the target.
            null_safe: For each column whether a null matches a null (`<=>`).

        Raises:
            TypeError: Keys of a type cannot be matched.
        """
        arrays = tuple(_array(column) for column in keys)
        columns = tuple(map(key_column, arrays))
        matchable = _matchable(columns, null_safe)
        rows = None if matchable is None else np.flatnonzero(matchable)
        table = HashTable.build(_hashes(columns, len(arrays[0])), rows)
        return cls(arrays, tuple(null_safe), columns, table)

    def match(self, keys: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs of a target row and a source row with equal keys.

        The pairs are sorted by target row, then by source row. A target row has several if the
        source has its key several times.

        Args:
            keys: The key columns of the target rows.
        """
        blocks = list(self.blocks(keys, max_pairs=sys.maxsize))
        return blocks[0] if blocks else (_NO_ROWS, _NO_ROWS)

    def blocks(
        self, keys: Sequence[pa.Array], *, max_pairs: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the pairs of `match` in blocks: a key may be very frequent on both sides.

        Args:
            keys: The key columns of the target rows.
            max_pairs: Pairs of a block, except that those of one row are not split.
        """
        columns = tuple(map(key_column, keys))
        for rows, groups in self.table.split(
            *self._find(columns, len(keys[0])), max_pairs=max_pairs
        ):
            pairs = self.table.pairs(rows, groups)
            yield pairs if self._hash_decides else self._confirmed(columns, *pairs)

    def _find(self, columns: tuple[KeyColumn, ...], count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the target rows whose hash the source has, and its group."""
        matchable = _matchable(columns, self.null_safe)
        found_rows, found_groups = [_NO_ROWS], [_NO_ROWS]
        for start in range(0, count, tuning.HASHED_ROWS):
            stop = min(start + tuning.HASHED_ROWS, count)
            hashes = hash_rows(columns, start, stop)
            rows = self.table.candidates(hashes)
            if matchable is not None:
                rows = rows[matchable[start:stop][rows]]
            rows, groups = self.table.find(hashes, rows)
            found_rows.append(rows + start)
            found_groups.append(groups)
        return np.concatenate(found_rows), np.concatenate(found_groups)

    def may_match(
        self,
        lower: Sequence[pa.Array | None],
        upper: Sequence[pa.Array | None],
        may_have_null: Sequence[pa.Array | None],
    ) -> np.ndarray | None:
        """Return for each file whether a key of the source may be in it; None if in every file.

        A null bound is unknown. Bounds include every value of the file that is not NaN: the caller
        has corrected truncated ones.

        Args:
            lower: For each key column the lower bounds of the files; None without statistics.
            upper: The upper bounds.
            may_have_null: Whether the column may have nulls; a null, or None, if unknown.
        """
        masks = [
            mask
            for key_range, *bounds in zip(self._ranges, lower, upper, may_have_null, strict=True)
            if (mask := key_range.may_overlap(*bounds)) is not None
        ]
        return np.logical_and.reduce(masks) if masks else None

    @property
    def nbytes(self) -> int:
        """Bytes of the index, without the key columns."""
        return self.table.nbytes

    @cached_property
    def _ranges(self) -> tuple[KeyRange, ...]:
        rows = self.table.rows if len(self.table.rows) < len(self.keys[0]) else None
        return tuple(KeyRange.build(keys, rows) for keys in self.keys)

    @property
    def _hash_decides(self) -> bool:
        """Whether equal hashes are equal keys: a single column without nulls in the index."""
        return len(self.columns) == 1 and self.columns[0].hash_is_exact and not self.null_safe[0]

    def _confirmed(
        self, columns: tuple[KeyColumn, ...], rows: np.ndarray, source_rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs whose values are equal."""
        masks = [np.zeros(0, np.bool_)]
        for start in range(0, len(rows), tuning.HASHED_ROWS):
            part = slice(start, start + tuning.HASHED_ROWS)
            mask = np.ones(len(rows[part]), np.bool_)
            for column, target in zip(self.columns, columns, strict=True):
                mask &= equal_rows(column, source_rows[part], target, rows[part])
            masks.append(mask)
        equal = np.concatenate(masks)
        return (rows, source_rows) if equal.all() else (rows[equal], source_rows[equal])


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return plain_array(column)


def _matchable(columns: Sequence[KeyColumn], null_safe: Sequence[bool]) -> np.ndarray | None:
    """Return which rows have no null in a column that is not null-safe; None if all."""
    masks = [
        column.valid
        for column, is_null_safe in zip(columns, null_safe, strict=True)
        if column.valid is not None and not is_null_safe
    ]
    return np.logical_and.reduce(masks) if masks else None


def _hashes(columns: Sequence[KeyColumn], count: int) -> np.ndarray:
    hashes = np.empty(count, np.uint64)
    for start in range(0, count, tuning.HASHED_ROWS):
        stop = min(start + tuning.HASHED_ROWS, count)
        hashes[start:stop] = hash_rows(columns, start, stop)
    return hashes
