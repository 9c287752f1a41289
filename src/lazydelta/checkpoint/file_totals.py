"""File counts, bytes and histograms of a version: the statistics of a version checksum.

They are counted from batches of adds, or updated from the previous version by the adds and removes
of one commit. Pure: columns in, numbers out.
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

# The bins of Delta Spark, finer around 128 MB: either engine can update the other's histogram.
_SIZE_BINS = np.array(
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
_DELETION_BINS = np.array([0, *(10**n for n in range(8)), 2**31 - 1], np.int64)
_EMPTY = np.empty(0, np.int64)
_LONG = PrimitiveType("long")


@dataclass(slots=True)
class _SizeHistogram:
    """`fileSizeHistogram`: the number of files and bytes of each size."""

    boundaries: np.ndarray
    counts: np.ndarray
    bytes: np.ndarray

    @classmethod
    def empty(cls) -> Self:
        return cls(
            _SIZE_BINS, np.zeros(len(_SIZE_BINS), np.int64), np.zeros(len(_SIZE_BINS), np.int64)
        )

    @classmethod
    def from_json(cls, obj: Any) -> Self | None:
        names = ("sortedBinBoundaries", "fileCounts", "totalBytes")
        if not isinstance(obj, dict) or not all(_is_count_list(obj.get(name)) for name in names):
            return None
        boundaries, counts, total = (np.array(obj[name], np.int64) for name in names)
        is_valid = len(boundaries) == len(counts) == len(total) > 0 and boundaries[0] == 0
        is_valid = is_valid and bool((np.diff(boundaries) > 0).all())
        return cls(boundaries, counts, total) if is_valid else None

    def update(self, sizes: np.ndarray, sign: int) -> None:
        bins = np.searchsorted(self.boundaries, sizes, side="right") - 1
        self.counts = self.counts + sign * np.bincount(bins, minlength=len(self.counts))
        bytes_per_bin = np.zeros_like(self.bytes)
        np.add.at(bytes_per_bin, bins, sizes)
        self.bytes = self.bytes + sign * bytes_per_bin

    def to_json(self) -> dict[str, Any]:
        return {
            "sortedBinBoundaries": self.boundaries.tolist(),
            "fileCounts": self.counts.tolist(),
            "totalBytes": self.bytes.tolist(),
        }


@dataclass(slots=True)
class FileTotals:
    """The totals of one version; an unknown one is None and stays None."""

    files: int = 0
    bytes: int = 0
    vectors: int | None = 0
    deleted_records: int | None = 0
    sizes: _SizeHistogram | None = field(default_factory=_SizeHistogram.empty)
    deletions: np.ndarray | None = field(
        default_factory=lambda: np.zeros(len(_DELETION_BINS), np.int64)
    )

    @classmethod
    def from_checksum(cls, raw: Mapping[str, Any], *, has_vectors: bool) -> Self | None:
        """Return the totals of a checksum; None if it lacks file count or bytes.

        Args:
            raw: The parsed checksum.
            has_vectors: Whether the protocol allows deletion vectors. Where it does not, their
                count is 0 even if the checksum omits it.
        """
        counts = [raw.get("numFiles"), raw.get("tableSizeBytes")]
        if not _is_count_list(counts):
            return None
        totals = cls(files=counts[0], bytes=counts[1])  # type: ignore[arg-type]
        histogram = raw.get("fileSizeHistogram", raw.get("histogramOpt"))
        totals.sizes = _SizeHistogram.from_json(histogram)
        if not has_vectors:
            totals.deletions = _bin_deletions(_EMPTY, totals.files)
            return totals
        vectors, deleted = raw.get("numDeletionVectorsOpt"), raw.get("numDeletedRecordsOpt")
        totals.vectors = vectors if _is_count_list([vectors]) else None
        totals.deleted_records = deleted if _is_count_list([deleted]) else None
        totals.deletions = _parse_deletions(raw.get("deletedRecordCountsHistogramOpt"))
        return totals

    def add(self, files: pa.RecordBatch | pa.Table) -> None:
        """Count files that became live; the protocol requires their `size`."""
        self._update(files, 1)

    def remove(self, files: pa.RecordBatch | pa.Table) -> None:
        """Subtract files that are no longer live."""
        self._update(files, -1)

    @property
    def is_consistent(self) -> bool:
        """Whether no total is negative: that would mean that more was removed than existed."""
        totals = [self.files, self.bytes, self.vectors or 0, self.deleted_records or 0]
        bins = [] if self.sizes is None else [self.sizes.counts.min(), self.sizes.bytes.min()]
        bins += [] if self.deletions is None else [self.deletions.min()]
        return min([*totals, *bins]) >= 0

    def to_checksum(self, *, has_vectors: bool) -> dict[str, Any]:
        """Return the fields of a checksum; those of deletion vectors only if allowed."""
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

    def _update(self, files: pa.RecordBatch | pa.Table, sign: int) -> None:
        sizes = _integers(files.column("size"))
        vectors = files.column("deletionVector")
        cardinalities = _EMPTY
        if vectors.null_count < len(vectors):
            cardinalities = _integers(pc.struct_field(vectors, "cardinality").drop_null())
        self.files += sign * len(sizes)
        self.bytes += sign * int(sizes.sum())
        if self.vectors is not None:
            self.vectors += sign * len(cardinalities)
        if self.deleted_records is not None:
            self.deleted_records += sign * int(cardinalities.sum())
        if self.sizes is not None:
            self.sizes.update(sizes, sign)
        if self.deletions is not None:
            self.deletions = self.deletions + sign * _bin_deletions(cardinalities, len(sizes))


def _bin_deletions(cardinalities: np.ndarray, files: int) -> np.ndarray:
    bins = np.searchsorted(_DELETION_BINS, cardinalities, side="right") - 1
    counts = np.bincount(bins, minlength=len(_DELETION_BINS))
    counts[0] += files - len(cardinalities)
    return counts


def _integers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return to_numpy(pc.fill_null(array, build_scalar(0, _LONG)) if array.null_count else array)


def _parse_deletions(obj: Any) -> np.ndarray | None:
    counts = obj.get("deletedRecordCounts") if isinstance(obj, dict) else None
    if not _is_count_list(counts) or len(counts) != len(_DELETION_BINS):  # type: ignore[arg-type]
        return None
    return np.array(counts, np.int64)


def _is_count_list(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
        for value in values
    )
