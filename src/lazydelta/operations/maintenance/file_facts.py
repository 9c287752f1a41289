"""Facts about the live files of a version, aggregated batch by batch.

Memory is bounded by partitions, by the tail's removes, by 8 bytes a file to find duplicates, and by
a limited number of files whose bounds are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_mask, to_numpy
from lazydelta.formats import num_records
from lazydelta.operations.clustering_columns import logical_paths
from lazydelta.operations.maintenance import tuning
from lazydelta.operations.optimize.bins import group_codes
from lazydelta.operations.optimize.overlap import FileBounds, column_bounds
from lazydelta.protocol.schemas import ADD
from lazydelta.replay import hash_keys, new_seed
from lazydelta.scan.plan import COMMIT_VERSION, partition_strings
from lazydelta.schema import PrimitiveType
from lazydelta.schema.mapping import physical_name
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from lazydelta.snapshot import SnapshotState

__all__ = ["HEALTH_FIELDS", "FileFacts"]

HEALTH_FIELDS = pa.schema(
    [ADD.field(n) for n in ("path", "partitionValues", "size", "stats", "deletionVector")]
)
"""The fields of an add that the facts need."""
_ZERO = build_scalar(0, PrimitiveType("long"))
_EDGES = np.array([0, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30], np.int64)
_LABELS = ("< 1 MiB", "1-16 MiB", "16-64 MiB", "64-256 MiB", "256 MiB-1 GiB", ">= 1 GiB")


class FileFacts:
    """Counts and distributions of live files.

    Args:
        snapshot: The version.
        target_bytes: The size that files should have.
    """

    def __init__(self, snapshot: SnapshotState, target_bytes: int) -> None:
        self._snapshot = snapshot
        self._small_bytes = target_bytes // tuning.SMALL_FILE_SHARE
        self.files = self.bytes = self.small_files = self.small_bytes = 0
        self.rows = self.files_without_count = 0
        self.vectors = self.deleted_rows = 0
        self._histogram = np.zeros(len(_EDGES), np.int64)
        self._partitions: list[pa.Table] = []
        self._sampled_stats: list[str] = []
        self._hashes: list[np.ndarray] = []
        self._seed = new_seed()
        self._bounds = _Bounds(snapshot)
        self._removes = _BareRemoves(snapshot)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch of live files, in the schema of `HEALTH_FIELDS` and with their version."""
        sizes = to_numpy(pc.coalesce(batch.column("size"), _ZERO))
        is_small = sizes < self._small_bytes
        self.files += batch.num_rows
        self.bytes += int(sizes.sum())
        self.small_files += int(is_small.sum())
        self.small_bytes += int(sizes[is_small].sum())
        bins = np.searchsorted(_EDGES, sizes, side="right") - 1
        self._histogram += np.bincount(bins, minlength=len(_EDGES))
        counts = num_records(batch.column("stats"))
        self.rows += int(pc.sum(counts).as_py() or 0)
        self.files_without_count += counts.null_count
        vectors = batch.column("deletionVector")
        self.vectors += len(vectors) - vectors.null_count
        self.deleted_rows += int(pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0)
        room = tuning.SAMPLED_STATS - len(self._sampled_stats)
        if room > 0:
            self._sampled_stats += batch.column("stats").drop_null().slice(0, room).to_pylist()
        paths = self._snapshot.resolver.keys(batch.column("path"))
        self._hashes.append(hash_keys(paths, self._seed))
        self._add_partitions(batch)
        self._bounds.add(batch)
        self._removes.check(batch)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the facts in sections."""
        statistics, partitions = self._statistics(), self.partitions()
        return {
            "files": {
                "count": self.files,
                "bytes": self.bytes,
                "rows": self.rows if not self.files_without_count else None,
                "average_bytes": self.bytes // max(self.files, 1),
                "small": self.small_files,
                "small_bytes": self.small_bytes,
                "small_share": _share(self.small_files, self.files),
                "sizes": dict(zip(_LABELS, self._histogram.tolist(), strict=True)),
            },
            "partitions": partitions,
            "statistics": statistics,
            "deletion_vectors": {
                "files": self.vectors,
                "file_share": _share(self.vectors, self.files),
                "deleted_rows": self.deleted_rows,
                "row_share": _share(self.deleted_rows, self.rows),
            },
            "clustering": self._bounds.depths(),
            "ghosts": {
                "files_live_twice": _repeated(self._hashes),
                "removes_without_vector": self._removes.found,
                "examples": self._removes.examples,
            },
        }

    def files_after_optimize(self, target_bytes: int) -> int:
        """Return about how many files are left if the small ones are joined."""
        partitions = min(self.partitions()["count"], self.small_files)
        return self.files - self.small_files + max(partitions, -(-self.small_bytes // target_bytes))

    def partitions(self) -> dict[str, Any]:
        """Return the number of partitions, and how their bytes are distributed."""
        columns = list(self._snapshot.partition_columns)
        if not columns or not self._partitions:
            return {"columns": columns, "count": 1 if self.files else 0}
        merged = self._merged()
        sizes = np.sort(to_numpy(merged.column("bytes").combine_chunks()))
        files = to_numpy(merged.column("files").combine_chunks())
        largest = merged.sort_by([("bytes", "descending")]).slice(0, 1).to_pylist()[0]
        return {
            "columns": columns,
            "count": len(sizes),
            "median_bytes": int(np.median(sizes)),
            "largest_bytes": int(sizes[-1]),
            "largest": {name: largest[name] for name in columns},
            "average_files": round(float(files.mean()), 1),
            "below_minimum": int((sizes < tuning.PARTITION_BYTES).sum()),
        }

    def _add_partitions(self, batch: pa.RecordBatch) -> None:
        columns = list(self._snapshot.partition_columns)
        if not columns:
            return
        values = partition_strings(self._snapshot, batch.column("partitionValues"), columns)
        ones = from_numpy(np.ones(batch.num_rows, np.int64))
        arrays = [*values.values(), ones, batch.column("size")]
        table = pa.Table.from_arrays(arrays, [*values, "files", "bytes"])
        self._partitions.append(_summed(table, columns))
        merged, *later = (part.num_rows for part in self._partitions)
        if sum(later) > max(tuning.PARTITION_ROWS, merged):
            self._partitions = [self._merged()]

    def _merged(self) -> pa.Table:
        columns = list(self._snapshot.partition_columns)
        return _summed(pa.concat_tables(self._partitions), columns)

    def _statistics(self) -> dict[str, Any]:
        """Return for how many of the sampled files each column has bounds."""
        names = {
            physical_name(field, self._snapshot.column_mapping_mode): field.name
            for field in self._snapshot.schema
            if field.name not in self._snapshot.partition_columns
        }
        counts = dict.fromkeys(names, 0)
        for stats in self._sampled_stats:
            try:
                bounds = orjson.loads(stats).get("minValues", {})
            except (orjson.JSONDecodeError, AttributeError):
                continue
            for name in counts.keys() & (bounds if isinstance(bounds, dict) else {}):
                counts[name] += 1
        sampled = len(self._sampled_stats)
        return {
            "files_without_row_count": self.files_without_count,
            "sampled_files": sampled,
            "columns_with_bounds": {
                names[name]: _share(count, sampled) for name, count in counts.items() if count
            },
            "columns_without_bounds": [names[name] for name, count in counts.items() if not count],
        }


def _summed(table: pa.Table, columns: list[str]) -> pa.Table:
    """Return one row for each partition; `group_by` would import pandas."""
    table = table.combine_chunks()
    codes = group_codes(table.column(name).combine_chunks() for name in columns)
    _, first = np.unique(codes, return_index=True)
    sums = {
        name: from_numpy(np.bincount(codes, to_numpy(table.column(name).chunk(0))).astype(np.int64))
        for name in ("files", "bytes")
    }
    kept = table.select(columns).take(from_numpy(first))
    return pa.Table.from_arrays([*kept.columns, *sums.values()], [*columns, *sums])


def _repeated(hashes: list[np.ndarray]) -> int:
    """Return how many hashes occur more than once."""
    ordered = np.sort(np.concatenate(hashes or [np.empty(0, np.uint64)]))
    return len(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


class _Bounds:
    """The overlap depth of the clustering columns: how many files a reader of one value opens."""

    def __init__(self, snapshot: SnapshotState) -> None:
        self._snapshot = snapshot
        self._paths = logical_paths(
            snapshot.schema, snapshot.clustering_columns(), snapshot.column_mapping_mode
        )
        self._bounds: list[list[tuple[pa.Array, pa.Array]]] = []
        self._files = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if not self._paths or self._files >= tuning.COMPARED_FILES:
            return
        self._files += batch.num_rows
        self._bounds.append(column_bounds(self._snapshot, batch, self._paths))

    def depths(self) -> dict[str, Any]:
        names = [".".join(path) for path in self._paths]
        if not names:
            return {"columns": [], "overlap_depth": {}}
        depths = FileBounds.joined(self._bounds).depths(np.zeros(self._files))
        return {
            "columns": names,
            # A table without files has no depths.
            "overlap_depth": dict(zip(names, depths, strict=False)),
            "compared_files": self._files,
        }


class _BareRemoves:
    """Removes that omit the deletion vector of the file, so that it is still live.

    Such a remove is newer than the live add of the same path, which has a vector. Engines that
    rewrite files without regard to vectors write them, and every row of the file is then doubled.
    """

    def __init__(self, snapshot: SnapshotState) -> None:
        self._snapshot = snapshot
        self.found = 0
        self.examples: list[str] = []
        paths, versions = [], []
        for batch in snapshot.commits.removes(reversed(snapshot.segment.commits)):
            bare = pc.and_(batch.remove.is_valid(), batch.remove.field("deletionVector").is_null())
            paths.append(snapshot.resolver.keys(batch.remove.filter(bare).field("path")))
            versions.append(batch.versions[to_mask(bare)])
        self._paths = pa.concat_arrays(paths) if paths else pa.nulls(0, pa.string())
        self._versions = np.concatenate(versions) if versions else np.empty(0, np.int64)

    def check(self, batch: pa.RecordBatch) -> None:
        vectors = batch.column("deletionVector")
        if not len(self._paths) or vectors.null_count == len(vectors):
            return
        marked = batch.filter(vectors.is_valid())
        keys = self._snapshot.resolver.keys(marked.column("path"))
        # Newest first: the first position of a path is its newest remove.
        places = pc.index_in(keys, value_set=self._paths)
        known = to_mask(places.is_valid())
        added = to_numpy(marked.column(COMMIT_VERSION.name))
        removed = np.full(len(keys), -1, np.int64)
        removed[known] = self._versions[to_numpy(places.drop_null())]
        ghosts = removed > added
        self.found += int(ghosts.sum())
        room = tuning.LISTED_FAILURES - len(self.examples)
        self.examples += keys.filter(from_mask(ghosts)).slice(0, max(room, 0)).to_pylist()
