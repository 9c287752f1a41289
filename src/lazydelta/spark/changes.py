"""The change feed on Spark: commits shared out among executors, which read what they changed.

The twin of `lazydelta.changes.ChangeFeed`: the range is found and judged at both ends where the
query is made, and every task reads some commits, or a share of the files of a large one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types as t
from pyspark.sql.datasource import InputPartition

from lazydelta.changes import (
    ChangeFeed,
    ChangePart,
    ChangeRange,
    RequestedRange,
    find_range,
    read_changes,
    split_changes,
)
from lazydelta.config import Config, ReadOptions
from lazydelta.expr import as_predicate
from lazydelta.spark.arrow_rows import for_spark, shown_schema
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.jobs import named
from lazydelta.spark.shipped import Address, ShippedSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.expr import Predicate
    from lazydelta.log import LogFile
    from lazydelta.scan import Where
    from lazydelta.schema import StructType

__all__ = ["CHANGE_FIELDS", "ChangesRead", "CommitsPart", "changes"]

CHANGE_FIELDS = (
    t.StructField("_change_type", t.StringType()),
    t.StructField("_commit_version", t.LongType()),
    t.StructField("_commit_timestamp", t.TimestampType()),
)
"""The columns of a change beside the table's own."""


def changes(
    spark: SparkSession,
    url: str,
    *,
    start_version: int | None = None,
    end_version: int | None = None,
    start_timestamp: datetime | str | None = None,
    end_timestamp: datetime | str | None = None,
    columns: Sequence[str] | None = None,
    where: Where = None,
    allow_out_of_range: bool = False,
    config: Config | None = None,
) -> DataFrame:
    """Return the rows that changed in a range of versions or times, both ends inclusive.

    The rows are those of `Table.changes`, in no order; executors read them. The range is fixed
    now: later commits are not part of it.

    Args:
        spark: A session, classic or Spark Connect; its executors must have lazydelta installed
            and reach the table's store.
        url: The table's address.
        start_version: The first version; 0 by default.
        end_version: The last version; the newest by default.
        start_timestamp: Begin with the first version at or after this time (naive: UTC).
        end_timestamp: End with the last version at or before this time.
        columns: What to show, in this order, of the table's columns and the feed's three.
        where: Only changes that match; it may name those three as well. Spark cannot tell a
            Python reader about filters put on the result, so this is the way to read fewer files.
        allow_out_of_range: Whether a range may reach, or lie, past the newest version.
        config: Settings of the engine; by default those of the `LAZYDELTA_*` environment.

    Raises:
        ChangeFeedDisabledError: A version at an end of the range did not record its changes.
        VersionNotCommittedError: The range reaches past the newest version.
    """
    asked = RequestedRange(
        start_version=start_version,
        end_version=end_version,
        start_timestamp=start_timestamp,
        end_timestamp=end_timestamp,
        allow_out_of_range=allow_out_of_range,
    )
    config = Config.from_env() if config is None else config
    address = Address(root=url, config=config, options_file=storage_options_file(spark))
    read = ChangesRead.find(address, asked, columns=columns, where=as_predicate(where))
    parts = read.plan()
    if not parts:
        return spark.createDataFrame([], read.schema)
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(named("read_changes", _read_each, read, tuple(parts)), read.schema)


def _read_each(
    read: ChangesRead, parts: Sequence[InputPartition], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from for_spark(read.read(parts[number]), read.schema)


@dataclass(frozen=True)
class CommitsPart(InputPartition):
    """Commits of a range, or a share of one."""

    part: ChangePart


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRead:
    """A read of the changes of a range of versions; it can be pickled."""

    commits: tuple[LogFile, ...]
    times: tuple[int | None, ...]
    start: ShippedSnapshot
    end: ShippedSnapshot
    columns: tuple[str, ...] | None
    where: Predicate | None
    schema: t.StructType

    @classmethod
    def find(
        cls,
        address: Address,
        asked: RequestedRange,
        *,
        columns: Sequence[str] | None,
        where: Predicate | None,
    ) -> ChangesRead:
        """Find a range and check what is asked of it."""
        return cls.of(
            find_range(address.open(), address.config, asked),
            options_file=address.options_file,
            columns=columns,
            where=where,
        )

    @classmethod
    def of(
        cls,
        found: ChangeRange,
        *,
        options_file: str | None,
        columns: Sequence[str] | None,
        where: Predicate | None,
    ) -> ChangesRead:
        """Describe the read of a range.

        Raises:
            ColumnNotFoundError: There is no such column.
            PredicateError: The predicate does not fit.
        """
        ChangeFeed(found, columns=columns, where=where)  # what does not fit fails now
        return cls(
            commits=found.commits,
            times=found.times,
            start=ShippedSnapshot.of(found.start, options_file),
            end=ShippedSnapshot.of(found.end, options_file),
            columns=None if columns is None else tuple(columns),
            where=where,
            schema=shown_schema(found.end, columns, CHANGE_FIELDS),
        )

    @property
    def filterable(self) -> StructType:
        """The columns that a predicate may name."""
        return ChangeFeed(self._range()).filterable()

    def plan(self) -> list[InputPartition]:
        """Return the parts of the read; nothing is read for it."""
        return [CommitsPart(part) for part in split_changes(self._range())]

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a part."""
        if not isinstance(part, CommitsPart):
            return iter(())  # Spark makes one part of nothing where a plan has none
        return read_changes(
            self._range(),
            part.part,
            columns=self.columns,
            where=self.where,
            options=ReadOptions(files_at_once=1),
        )

    def _range(self) -> ChangeRange:
        store = self.end.address.open()
        return ChangeRange(
            commits=self.commits,
            times=self.times,
            start=self.start.open(store),
            end=self.end.open(store),
        )
