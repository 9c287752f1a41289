"""Rows of many partitions in temporary files, to be read again with each partition's together.

An optimized write has more partitions than it may keep files open for. Without the spool it would
start another small file of a partition each time that its rows come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.replay import BatchSpool
from lazydelta.writer import tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lazydelta.writer.files.partition_router import Partition

__all__ = ["PartitionSpool"]


class PartitionSpool:
    """Stores rows by partition; all are appended before any is read."""

    def __init__(self) -> None:
        self._numbers: dict[Partition, int] = {}
        self._buckets = [
            BatchSpool(memory_limit=0, compression="lz4") for _ in range(tuning.SPOOL_BUCKETS)
        ]
        self._partitions: list[list[Partition]] = [[] for _ in self._buckets]

    def append(self, partition: Partition, rows: pa.RecordBatch) -> None:
        """Append rows of one partition."""
        number = self._numbers.setdefault(partition, len(self._numbers))
        bucket = number % len(self._buckets)
        self._buckets[bucket].append(rows)
        self._partitions[bucket].append(partition)

    def drain(self) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yield all rows, a share of the partitions after the other; each in its order."""
        for bucket, partitions in zip(self._buckets, self._partitions, strict=True):
            yield from zip(partitions, bucket.drain(), strict=True)

    def close(self) -> None:
        """Delete the temporary files."""
        for bucket in self._buckets:
            bucket.close()
