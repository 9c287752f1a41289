"""What the live files of a version add up to: counts, bytes, and how both are spread.

The numbers of a `.crc`. They are counted from batches of adds, or moved on from the version before
by what one commit added and removed. Pure: columns in, numbers out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import to_numpy
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FileTotals"]

_KB, _MB, _GB = 1 << 10, 1 << 20, 1 << 30

# Finer round 128 MB, where most files of well-kept tables are: the bins of the reference engine,
# so that either engine can go on with a histogram of the other.
_SIZES = np.array(
    [
        0,
        *(_KB * n for n in (8, 16, 32, 64, 128, 256, 512)),
        *(_MB * n for n in (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40)),
        *(_MB * n for n in range(48, 121, 8)),
        *(_MB * n for n in (124, 128, 132, 136, 140, 144)),
        *(_MB * n for n in range(160, 577, 16)),
        *(_MB * n for n in range(640, 1409, 64)),
        *(_MB * n for n in range(1536, 2049, 128)),
        *(_MB * n for n in range(2304, 3841, 256)),
        *(_GB * n for n in (4, 8, 16, 32, 64, 128, 256)),
    ],
    np.int64,
)
_DELETIONS = np.array([0, *(10**n for n in range(8)), 2**31 - 1], np.int64)
_NO_NUMBERS = np.empty(0, np.int64)
_LONG = PrimitiveType("long")


@dataclass(slots=True)
class _SizeHistogram:
    """How many files, and bytes, there are of each size."""

    boundaries: np.ndarray
    counts: np.ndarray
    bytes: np.ndarray

    @classmethod
    def empty(cls) -> Self:
        return cls(_SIZES, np.zeros(len(_SIZES), np.int64), np.zeros(len(_SIZES), np.int64))

    @classmethod
    def from_json(cls, obj: Any) -> Self | None:
        names = ("sortedBinBoundaries", "fileCounts", "totalBytes")
        if not isinstance(obj, dict) or not all(_are_counts(obj.get(name)) for name in names):
            return None
        boundaries, counts, total = (np.array(obj[name], np.int64) for name in names)
        is_sound = len(boundaries) == len(counts) == len(total) > 0 and boundaries[0] == 0
        return cls(boundaries, counts, total) if is_sound and _ascends(boundaries) else None

    def move(self, sizes: np.ndarray, sign: int) -> None:
        bins = np.searchsorted(self.boundaries, sizes, side="right") - 1
        self.counts = self.counts + sign * np.bincount(bins, minlength=len(self.counts))
        moved = np.zeros_like(self.bytes)
        np.add.at(moved, bins, sizes)
        self.bytes = self.bytes + sign * moved

    def to_json(self) -> dict[str, Any]:
        return {
            "sortedBinBoundaries": self.boundaries.tolist(),
            "fileCounts": self.counts.tolist(),
            "totalBytes": self.bytes.tolist(),
        }


@dataclass(slots=True)
class FileTotals:
    """The totals of one version; a part that is not known is None and stays so."""

    files: int = 0
    bytes: int = 0
    vectors: int | None = 0
    deleted_records: int | None = 0
    sizes: _SizeHistogram | None = field(default_factory=_SizeHistogram.empty)
    deletions: np.ndarray | None = field(
        default_factory=lambda: np.zeros(len(_DELETIONS), np.int64)
    )

    @classmethod
    def from_checksum(cls, raw: Mapping[str, Any], *, has_vectors: bool) -> Self | None:
        """Return the totals that a `.crc` states, None where it states none.

        Args:
            raw: The object of the file.
            has_vectors: Whether the protocol of its version allows deletion vectors; where it does
                not, there is none whatever the file leaves out.
        """
        counts = [raw.get("numFiles"), raw.get("tableSizeBytes")]
        if not _are_counts(counts):
            return None
        known = cls(files=counts[0], bytes=counts[1])  # type: ignore[arg-type]
        histogram = raw.get("fileSizeHistogram", raw.get("histogramOpt"))
        known.sizes = _SizeHistogram.from_json(histogram)
        if not has_vectors:
            known.deletions = _binned(_NO_NUMBERS, known.files)
            return known
        vectors, deleted = raw.get("numDeletionVectorsOpt"), raw.get("numDeletedRecordsOpt")
        known.vectors = vectors if _are_counts([vectors]) else None
        known.deleted_records = deleted if _are_counts([deleted]) else None
        known.deletions = _deletions(raw.get("deletedRecordCountsHistogramOpt"))
        return known

    def add(self, files: pa.RecordBatch | pa.Table) -> None:
        """Count files that are live now; their `size` must be known, as the protocol asks."""
        self._move(files, 1)

    def remove(self, files: pa.RecordBatch | pa.Table) -> None:
        """Count out files that were live before."""
        self._move(files, -1)

    @property
    def is_sound(self) -> bool:
        """Whether no number is below zero, which would show that more went than there was."""
        numbers = [self.files, self.bytes, self.vectors or 0, self.deleted_records or 0]
        spread = [] if self.sizes is None else [self.sizes.counts.min(), self.sizes.bytes.min()]
        spread += [] if self.deletions is None else [self.deletions.min()]
        return min([*numbers, *spread]) >= 0

    def to_checksum(self, *, has_vectors: bool) -> dict[str, Any]:
        """Return the fields of a `.crc`; those of vectors only where a table may have them."""
        fields: dict[str, Any] = {"tableSizeBytes": self.bytes, "numFiles": self.files}
        if has_vectors:
            fields["numDeletedRecordsOpt"] = self.deleted_records
            fields["numDeletionVectorsOpt"] = self.vectors
            if self.deletions is not None:
                counts = {"deletedRecordCounts": self.deletions.tolist()}
                fields["deletedRecordCountsHistogramOpt"] = counts
        if self.sizes is not None:
            fields["fileSizeHistogram"] = self.sizes.to_json()
        return {name: value for name, value in fields.items() if value is not None}

    def _move(self, files: pa.RecordBatch | pa.Table, sign: int) -> None:
        sizes = _numbers(files.column("size"))
        vectors = files.column("deletionVector")
        cardinalities = _NO_NUMBERS
        if vectors.null_count < len(vectors):
            cardinalities = _numbers(pc.struct_field(vectors, "cardinality").drop_null())
        self.files += sign * len(sizes)
        self.bytes += sign * int(sizes.sum())
        if self.vectors is not None:
            self.vectors += sign * len(cardinalities)
        if self.deleted_records is not None:
            self.deleted_records += sign * int(cardinalities.sum())
        if self.sizes is not None:
            self.sizes.move(sizes, sign)
        if self.deletions is not None:
            self.deletions = self.deletions + sign * _binned(cardinalities, len(sizes))


def _binned(cardinalities: np.ndarray, files: int) -> np.ndarray:
    bins = np.searchsorted(_DELETIONS, cardinalities, side="right") - 1
    counts = np.bincount(bins, minlength=len(_DELETIONS))
    counts[0] += files - len(cardinalities)
    return counts


def _numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return to_numpy(pc.fill_null(whole, build_scalar(0, _LONG)) if whole.null_count else whole)


def _deletions(obj: Any) -> np.ndarray | None:
    counts = obj.get("deletedRecordCounts") if isinstance(obj, dict) else None
    if not _are_counts(counts) or len(counts) != len(_DELETIONS):  # type: ignore[arg-type]
        return None
    return np.array(counts, np.int64)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
        for value in values
    )


def _ascends(numbers: np.ndarray) -> bool:
    return bool((np.diff(numbers) > 0).all())
