"""Data files: Parquet -> Arrow, in batches that know their position in the file.

Knows Parquet and stores; nothing of tables, logical names or deletion vectors. Positions stay
correct when row groups are skipped, so that callers can drop rows by position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.parquet import tuning
from lazydelta.parquet.datetime_rebase import legacy_calendar
from lazydelta.parquet.native_reader import NativeReader
from lazydelta.parquet.open_file import OpenFile
from lazydelta.parquet.pages.page_filter import PageFilter
from lazydelta.parquet.pages.row_ranges import filter_leaves
from lazydelta.parquet.pyarrow_reader import PyArrowReader
from lazydelta.parquet.reader import FallbackReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from lazydelta.config import DatetimeRebaseMode
    from lazydelta.expressions import Predicate
    from lazydelta.parquet.native import FileTemplate
    from lazydelta.parquet.row_batches import RowBatch
    from lazydelta.parquet.row_selection import RowSelection
    from lazydelta.store import Store

__all__ = ["DataFile"]


class DataFile:
    """A Parquet file of a table, footer read.

    Args:
        store: The store of the file.
        path: Its path in the store.
        size: Its size in the log; saves a request.
        modified: Its modification time in the log, which identifies it together with path and
            size; None does not cache its footer.
        whole: Whether the caller reads all columns and row groups: a remote file of a few megabytes
            is then fetched in one request.
        max_decoded_bytes: Maximum bytes that a column of a row group may decode to in one piece,
            unless it is large in the file as well.
        threads: Whether pyarrow decodes columns in parallel, so that a single file does not leave
            cores idle. Several files read in parallel do not need it. The native decoder counts
            the busy threads itself.
        rebase_mode: As in `ReadOptions`.

    Raises:
        ObjectNotFoundError: It does not exist.
        DataFileError: It is not a Parquet file, or damaged.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        size: int | None = None,
        *,
        modified: int | None = None,
        whole: bool = False,
        max_decoded_bytes: int,
        threads: bool = True,
        rebase_mode: DatetimeRebaseMode = "exception",
    ) -> None:
        self._file = file = OpenFile(
            store, path, size,
            modified=modified, whole=whole, max_decoded_bytes=max_decoded_bytes,
        )  # fmt: skip
        self.path = path
        self.schema: pa.Schema = file.schema
        self.metadata: pq.FileMetaData = file.metadata
        self.num_rows: int = file.metadata.num_rows
        self.calendar = legacy_calendar(file.metadata, rebase_mode)
        self._native = NativeReader(file)
        self._pyarrow = PyArrowReader(file, threads=threads)
        self._reader = FallbackReader(self._native, self._pyarrow)
        self.is_remote = file.is_remote
        self._page_filter = None if file.is_remote else PageFilter(file.footer, file.input)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(
        self,
        columns: Sequence[str],
        row_groups: Sequence[int],
        *,
        batch_rows: int,
        keep: RowSelection | None = None,
        views: bool = False,
        native: bool = True,
        first_rows: int | None = None,
    ) -> Iterator[RowBatch]:
        """Yield columns of row groups, in the order of the file.

        Args:
            columns: Paths of leaves, or of groups that contain them.
            row_groups: Their indices, ascending.
            batch_rows: Maximum rows of a batch; fewer where rows are large.
            keep: The rows to select; None selects all. With it, positions are meaningless.
            views: Whether strings and binaries may be decoded as views.
            native: Whether the native decoder may read them. It validates all pages before the
                first row, which costs more than a few rows.
            first_rows: Number of rows after which the caller may stop; row groups beyond them are
                not fetched before they are needed.

        Raises:
            DataFileError: It is damaged.
        """
        reader = self._reader if native else self._pyarrow
        for groups in self.fetched(columns, row_groups, max_rows=first_rows):
            for run in _adjacent(groups):
                yield from reader.read(columns, run, batch_rows=batch_rows, keep=keep, views=views)

    def fetched(
        self, columns: Sequence[str], row_groups: Sequence[int], *, max_rows: int | None = None
    ) -> Iterator[Sequence[int]]:
        """Yield row groups in parts; columns of a part are requested together.

        They stay in memory until the next part is requested from the iterator. Meanwhile its bytes
        are fetched, unless `max_rows` is set. A local file is one part.

        Args:
            columns: Paths of leaves, or of groups that contain them.
            row_groups: Their indices, ascending.
            max_rows: Number of rows after which a part ends.
        """
        if not self.is_remote or not columns:
            yield row_groups
            return
        leaves = self._file.leaves.below(columns)
        parts = list(self._parts(leaves, row_groups, max_rows))
        yield from self._file.fetched_parts(leaves, parts, ahead=max_rows is None)

    def read_range(
        self, columns: Sequence[str], row_group: int, start: int, end: int, *, batch_rows: int
    ) -> Iterator[RowBatch]:
        """Return columns of a range of rows of a row group.

        The native decoder skips the pages before the first row. pyarrow decodes the row group
        from its start.

        Args:
            columns: Paths of leaves, or of groups that contain them.
            row_group: Its index.
            start: Position of the first row in the file.
            end: Position after the last one.
            batch_rows: Maximum rows of a batch; fewer where rows are large.
        """
        return self._reader.read(
            columns, [row_group], batch_rows=batch_rows, row_range=(start, end)
        )

    def read_ranges(
        self,
        columns: Sequence[str],
        row_group: int,
        ranges: Sequence[tuple[int, int]],
        *,
        batch_rows: int,
    ) -> Iterator[RowBatch]:
        """Yield columns of ranges of rows of a row group, as `row_ranges` returns them.

        Once the native decoder has refused the columns, the rows between the ranges are returned
        too: pyarrow would decode the row group from its start for each range.
        """
        for index, (start, end) in enumerate(ranges):
            is_last = index > 0 and not self._native.can_read(columns, [row_group])
            stop = ranges[-1][1] if is_last else end
            yield from self.read_range(columns, row_group, start, stop, batch_rows=batch_rows)
            if is_last:
                return

    def row_ranges(
        self,
        columns: Sequence[str],
        row_group: int,
        rule: Predicate | None,
        leaves: Mapping[tuple[str, ...], str],
        partition: Mapping[str, pa.Scalar],
    ) -> list[tuple[int, int]]:
        """Return the ranges of rows of a row group that may match by their page statistics.

        They are positions in the file. The whole row group if pyarrow has to read it, which cannot
        skip pages.

        Args:
            columns: The columns to read: ranges with a short gap between them are merged.
            row_group: Its index.
            rule: Over statistics of logical paths (`matching_row_groups`); None keeps all.
            leaves: Path in the file by logical path.
            partition: Partition values of the file.
        """
        first, end = self._file.positions([row_group])
        filtered = set() if rule is None else filter_leaves(rule, leaves)
        size = self.column_bytes(filtered, [row_group])
        page_filter = self._page_filter
        if page_filter is None or rule is None or size < tuning.PAGE_FILTER_BYTES:
            return [(first, end)]
        if not (page_filter.is_cheap(size) and self._native.can_read(columns, [row_group])):
            return [(first, end)]
        ranges: list[tuple[int, int]] = []
        for start, stop in page_filter.row_ranges(row_group, rule, leaves, partition):
            gap = first + start - ranges[-1][1] if ranges else 0
            if ranges and not self.can_skip(columns, row_group, gap):
                ranges[-1] = ranges[-1][0], first + stop
            else:
                ranges.append((first + start, first + stop))
        return ranges

    def can_skip(self, columns: Sequence[str], row_group: int, rows: int) -> bool:
        """Whether `read_range` skips a gap of so many rows instead of decoding it."""
        return rows >= tuning.MIN_SKIP_ROWS and self._native.can_read(columns, [row_group])

    def first_row(self, row_group: int) -> int:
        """Return the position of the first row of a row group."""
        return self._file.row_group_starts[row_group]

    def column_bytes(self, columns: Collection[str], row_groups: Sequence[int]) -> int:
        """Return the bytes in the file that reading columns of row groups takes."""
        leaves = self._file.leaves.siblings(columns)
        groups = [self.metadata.row_group(index) for index in row_groups]
        return sum(group.column(leaf).total_compressed_size for group in groups for leaf in leaves)

    def template(
        self,
        columns: Sequence[str],
        *,
        views: bool = False,
        output_schema: pa.Schema | None = None,
    ) -> FileTemplate | None:
        """Return the template that reads columns of this file and of others with its schema.

        None if the native decoder cannot read them.

        Args:
            columns: Paths of leaves, or of groups that contain them.
            views: Whether strings and binaries are decoded as views.
            output_schema: Schema of the batches, if columns only need other names. Ignored where
                the file has them in another order.
        """
        return self._native.template(columns, views=views, output_schema=output_schema)

    def _parts(
        self, leaves: Sequence[int], row_groups: Sequence[int], max_rows: int | None
    ) -> Iterator[list[int]]:
        """Yield row groups in parts of bounded size, at least one in each."""
        part: list[int] = []
        num_bytes = num_rows = 0
        for at in row_groups:
            group = self.metadata.row_group(at)
            size = sum(group.column(leaf).total_compressed_size for leaf in leaves)
            is_full = num_bytes + size > tuning.REMOTE_FETCH_BYTES
            if part and (is_full or (max_rows is not None and num_rows >= max_rows)):
                yield part
                part, num_bytes, num_rows = [], 0, 0
            part.append(at)
            num_bytes += size
            num_rows += group.num_rows
        if part:
            yield part


def _adjacent(row_groups: Sequence[int]) -> Iterator[list[int]]:
    """Yield runs of adjacent row groups, which are decoded in one pass."""
    run: list[int] = []
    for group in row_groups:
        if run and group != run[-1] + 1:
            yield run
            run = []
        run.append(group)
    if run:
        yield run
