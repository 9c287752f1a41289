"""Change data feed on Spark: executors read the changes of a range of commits.

The driver finds and validates the range, as `lazydelta.changes.ChangeFeed` does. A task reads
several small commits, or a share of the files of a large one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.changes import (
    CHANGE_FIELDS,
    ChangeFeed,
    ChangeRange,
    ChangeSplit,
    RequestedRange,
    find_range,
    read_changes,
    split_changes,
)
from lazydelta.config import Config, ReadOptions
from lazydelta.expressions import as_predicate
from lazydelta.spark.arrow_conversion import conform_batches, read_schema
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.jobs import named_task
from lazydelta.spark.serialized_snapshot import SerializedSnapshot, TableLocation, check_importable
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.spark.spark_releases import InputPartition, map_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as t

    from lazydelta.expressions import Predicate
    from lazydelta.log import LogFile
    from lazydelta.scan import Where
    from lazydelta.store.cloud import Credential

__all__ = ["ChangesRead", "CommitsPartition", "changes"]


@raises_spark_errors
def changes(
    spark: SparkSession,
    url: str,
    *,
    starting_version: int | None = None,
    ending_version: int | None = None,
    starting_timestamp: datetime | str | None = None,
    ending_timestamp: datetime | str | None = None,
    columns: Sequence[str] | None = None,
    where: Where = None,
    allow_out_of_range: bool = False,
    config: Config | None = None,
    credential: Credential | None = None,
) -> DataFrame:
    """Return the rows that changed in a range of versions or times, both ends inclusive.

    The rows are those of `Table.changes`, in no order. The range is fixed by the call: later
    commits are not part of it.

    Args:
        spark: A session, classic or Spark Connect; its executors need lazydelta installed and
            access to the table's store.
        url: The table's location.
        starting_version: The first version; 0 by default.
        ending_version: The last version; the latest by default.
        starting_timestamp: Start at the first version at or after this time (naive: UTC).
        ending_timestamp: End at the last version at or before this time.
        columns: Columns to return, in this order, of the table's and the feed's three.
        where: Only changes that match; it may name those three as well. Spark does not push
            filters of the result to a Python task, so this is the way to read fewer files.
        allow_out_of_range: Whether the range may extend past the latest version.
        credential: A function of a module that returns a token or keys. Executors import and call
            it too, so no secret is part of a plan.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.

    Raises:
        ChangeFeedDisabledError: The change feed was disabled at the first or last version.
        VersionNotCommittedError: The range extends past the latest version.
    """
    requested = RequestedRange(
        starting_version=starting_version,
        ending_version=ending_version,
        starting_timestamp=starting_timestamp,
        ending_timestamp=ending_timestamp,
        allow_out_of_range=allow_out_of_range,
    )
    config = Config.from_env() if config is None else config
    check_importable(credential)
    location = TableLocation(
        root=url, config=config, options_file=storage_options_file(spark), credential=credential
    )
    read = ChangesRead.find(location, requested, columns=columns, where=as_predicate(where))
    splits = read.plan()
    if not splits:
        return spark.createDataFrame([], read.schema)
    numbers = spark.range(0, len(splits), 1, len(splits))
    task = named_task("read_changes", _read_each, read, tuple(splits))
    return map_rows(numbers, task, read.schema)


def _read_each(
    read: ChangesRead, splits: Sequence[InputPartition], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from conform_batches(read.read(splits[number]), read.schema)


@dataclass(frozen=True)
class CommitsPartition(InputPartition):
    """Commits of a range, or a share of the files of one commit."""

    split: ChangeSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRead:
    """Read of the changes of a range of versions; it can be pickled."""

    commits: tuple[LogFile, ...]
    times: tuple[int | None, ...]
    start: SerializedSnapshot
    end: SerializedSnapshot
    columns: tuple[str, ...] | None
    where: Predicate | None
    schema: t.StructType

    @classmethod
    def find(
        cls,
        location: TableLocation,
        requested: RequestedRange,
        *,
        columns: Sequence[str] | None,
        where: Predicate | None,
    ) -> ChangesRead:
        """Resolve and validate a range."""
        return cls.of(
            find_range(location.open(), location.config, requested),
            options_file=location.options_file,
            columns=columns,
            where=where,
        )

    @classmethod
    def of(
        cls,
        change_range: ChangeRange,
        *,
        options_file: str | None,
        columns: Sequence[str] | None,
        where: Predicate | None,
    ) -> ChangesRead:
        """Return the read of a resolved range.

        Raises:
            ColumnNotFoundError: An unknown column.
            PredicateError: The predicate does not fit the schema.
        """
        ChangeFeed(change_range, columns=columns, where=where)  # validates columns and predicate
        return cls(
            commits=change_range.commits,
            times=change_range.times,
            start=SerializedSnapshot.of(change_range.start, options_file),
            end=SerializedSnapshot.of(change_range.end, options_file),
            columns=None if columns is None else tuple(columns),
            where=where,
            schema=read_schema(change_range.end, columns, CHANGE_FIELDS),
        )

    def plan(self) -> list[InputPartition]:
        """Return the input partitions, without reading anything."""
        return [CommitsPartition(split) for split in split_changes(self._range())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of an input partition."""
        if not isinstance(partition, CommitsPartition):
            return iter(())  # Spark replaces an empty plan by one placeholder partition
        return read_changes(
            self._range(),
            partition.split,
            columns=self.columns,
            where=self.where,
            options=ReadOptions(files_at_once=1),
        )

    def _range(self) -> ChangeRange:
        store = self.end.location.open()
        return ChangeRange(
            commits=self.commits,
            times=self.times,
            start=self.start.open(store),
            end=self.end.open(store),
        )
