"""Data files: Parquet -> Arrow, a run of rows at a time, each with its position in the file.

Knows Parquet and stores; nothing of tables, logical names or deletion vectors. Positions stay
true when row groups are left out, so whoever drops rows by position can do so afterwards.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.errors import DataFileError, StoreError
from lazydelta.parquet.datetime_rebase import legacy_calendar
from lazydelta.parquet.decode_limits import (
    BOUNDED_CODECS,
    InflatedError,
    has_long_strings,
    in_pieces,
    rows_at_once,
)
from lazydelta.parquet.footer import THRIFT_LIMIT, read_footer
from lazydelta.parquet.leaf_index import Leaves, codecs_of
from lazydelta.parquet.native import (
    COMPILED_CODECS,
    compiled_batches,
    compiled_template,
    has_native_decoder,
)
from lazydelta.parquet.page_filter import PageFilter
from lazydelta.parquet.page_headers import BadPageError
from lazydelta.parquet.row_batches import LEAST_ROWS, Rows, rows_that_fit
from lazydelta.parquet.row_ranges import leaves_asked_for
from lazydelta.store import is_local, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lazydelta.config import DatetimeRebaseMode
    from lazydelta.expressions import Predicate
    from lazydelta.parquet.native import FileTemplate
    from lazydelta.store import Store

__all__ = ["DataFile"]

# A local page cache makes small reads cheap; a remote store is paid by the request.
_LOCAL_BUFFER = 1 << 20
_REMOTE_RUN_BYTES = 64 << 20
_PAGE_FILTER_BYTES = 1 << 20
"""Least size of the predicate's columns in a row group for page statistics to be read."""


class DataFile:
    """A Parquet file of a table, footer read.

    Args:
        store: Where it is.
        path: Its path in the store.
        size: Its size as the log has it; saves a request.
        inflated_limit: Bytes that a column of a row group may decode to in one piece, unless it
            is large in the file as well.
        threads: Whether pyarrow decodes columns side by side, so that a single file does not
            leave cores idle. Many files side by side do so themselves; the compiled decoder sees
            how many threads are at work.
        rebase_mode: As in `ReadOptions`.

    Raises:
        ObjectNotFoundError: It is not there.
        DataFileError: It is not a Parquet file, or damaged.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        size: int | None = None,
        *,
        inflated_limit: int,
        threads: bool = True,
        rebase_mode: DatetimeRebaseMode = "exception",
    ) -> None:
        self.path = path
        self._threads = threads
        self._inflated_limit = inflated_limit
        self._table = store.root
        self._is_remote = not is_local(store)
        self._local_path = local_path(store, path)
        self._refused: set[frozenset[str]] = set()  # columns that the compiled decoder cannot read
        with self._guarded():
            self._source = store.open_input(path, size=size)
            try:
                footer = read_footer(self._source)
                self.schema: pa.Schema = footer.schema
                self.metadata: pq.FileMetaData = footer.metadata
                # Names that are no text are found out here, where it is known whose they are.
                self._leaves = Leaves(self.metadata)
            except BaseException:
                self._source.close()
                raise
        self.num_rows: int = self.metadata.num_rows
        self.calendar = legacy_calendar(self.metadata, rebase_mode)
        self._known_starts: list[int] | None = None
        self._paging = None if self._is_remote else PageFilter(footer, self._source)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def rows(
        self,
        columns: Sequence[str],
        row_groups: Sequence[int],
        *,
        batch_rows: int,
    ) -> Iterator[Rows]:
        """Yield the chosen columns of the chosen row groups, in the order of the file.

        Texts that the file keeps in a dictionary come with it, whatever the schema says: to look
        them up all at once, and after rows were dropped, takes half the time.

        Args:
            columns: Paths of leaves, or of what holds them; others do not cost anything.
            row_groups: Ascending numbers of row groups.
            batch_rows: Most rows at a time; fewer where rows are large.
        """
        starts = self._starts()
        for run in self.runs(row_groups):
            position, end = starts[run[0]], starts[run[-1] + 1]
            if not columns:
                for start in range(position, end, batch_rows):
                    yield Rows(start, min(batch_rows, end - start), None)
                continue
            for batch in self._batches(columns, run, batch_rows):
                yield Rows(position, batch.num_rows, batch)
                position += batch.num_rows
            if position != end:
                reason = f"{end - position} rows of row groups {run[0]} to {run[-1]} are missing"
                raise DataFileError(self._table, self.path, reason)

    def runs(self, row_groups: Sequence[int]) -> Iterator[list[int]]:
        """Yield neighbouring row groups to read together; remote ones are buffered, so not many."""
        run: list[int] = []
        held = 0
        for group in row_groups:
            size = self.metadata.row_group(group).total_byte_size if self._is_remote else 0
            if run and (group != run[-1] + 1 or held + size > _REMOTE_RUN_BYTES):
                yield run
                run, held = [], 0
            run.append(group)
            held += size
        if run:
            yield run

    def compiled(
        self,
        columns: Sequence[str],
        run: Sequence[int],
        *,
        batch_rows: int,
        span: tuple[int, int] | None = None,
        kept: bytes | None = None,
        views: bool = False,
    ) -> Iterator[pa.RecordBatch] | None:
        """Return columns as the compiled decoder gives them; None if it cannot be asked for them.

        Args:
            columns: Paths of leaves, or of what holds them.
            run: Neighbouring row groups.
            batch_rows: Most rows to decode at once; fewer where rows are large.
            span: Where to begin and end, counted from the first row of the run; None reads all.
            kept: A bit for each row in between: whether it comes; None takes all.
            views: Whether texts and bytes come as views.
        """
        leaves = self._leaves.of(columns)
        if self._local_path is None or not self._is_compilable(columns, run):
            return None
        rows = self._fitting(run, batch_rows)
        if (
            not codecs_of(self.metadata, leaves, run) <= BOUNDED_CODECS
        ):  # else the decoder sees to it
            rows = self._within_limit(leaves, run, rows)
        max_string_bytes = None if views else self._inflated_limit
        batches = compiled_batches(
            self._local_path, self._leaves.fields(leaves, self.schema), leaves, run, rows,
            span=span, kept=kept, max_string_bytes=max_string_bytes,
        )  # fmt: skip
        if batches is None:
            self._refused.add(frozenset(columns))
            return None
        return self._in_our_words(batches)

    def template(
        self, columns: Sequence[str], *, views: bool = False, shown: pa.Schema | None = None
    ) -> FileTemplate | None:
        """Return the template that reads columns of this file and of others with its schema.

        None if the compiled decoder cannot read them.

        Args:
            columns: Paths of leaves, or of what holds them.
            views: Whether strings and binaries are decoded as views.
            shown: Schema of opened files, if columns only need other names. Ignored where the file
                has them in another order.
        """
        leaves, groups = self._leaves.of(columns), range(self.metadata.num_row_groups)
        if self._local_path is None or not self._is_compilable(columns, groups):
            return None
        fields = self._leaves.fields(leaves, self.schema)
        if [field.name for field in fields] != list(columns):
            shown = None
        limit = self._inflated_limit
        return compiled_template(self._local_path, fields, leaves, limit, views=views, shown=shown)

    def _is_compilable(self, columns: Sequence[str], run: Sequence[int]) -> bool:
        """Whether the compiled decoder can be asked; it may still say no, but only once."""
        if (
            self._local_path is None
            or not has_native_decoder()
            or frozenset(columns) in self._refused
        ):
            return False
        leaves = self._leaves.of(columns)
        for column in map(self._leaves.columns.column, leaves):
            if "." in column.path or column.physical_type == "INT96":
                return False
        return codecs_of(self.metadata, leaves, run) <= COMPILED_CODECS

    def _in_our_words(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self._guarded():
            yield from batches

    def rows_between(
        self, columns: Sequence[str], row_group: int, start: int, end: int, *, batch_rows: int
    ) -> Iterator[Rows]:
        """Yield the chosen columns of some rows of a row group.

        The compiled decoder skips the pages before the first row. pyarrow decodes the row group
        from its start.

        Args:
            columns: Paths of leaves, or of what holds them.
            row_group: Which one.
            start: Position of the first row in the file.
            end: Position behind the last one.
            batch_rows: Most rows at a time; fewer where rows are large.
        """
        first = self.first_row(row_group)
        at_once = min(batch_rows, max(end - start, 1))
        span = start - first, end - first
        decoded = self.compiled(columns, [row_group], batch_rows=at_once, span=span)
        try:
            for batch in decoded or ():
                yield Rows(start, batch.num_rows, batch)
                start += batch.num_rows
        except DataFileError:
            decoded = None  # pyarrow goes on: it may read it, or says what is wrong
            self._refused.add(frozenset(columns))
        if decoded is not None:
            return
        for rows in self.rows(columns, [row_group], batch_rows=min(batch_rows, end - first)):
            if rows.end > start:
                yield rows.part(start, end)
            if rows.end >= end:
                return

    def rows_within(
        self,
        columns: Sequence[str],
        row_group: int,
        spans: Sequence[tuple[int, int]],
        *,
        batch_rows: int,
    ) -> Iterator[Rows]:
        """Yield the chosen columns of ranges of rows of a row group, by `spans`.

        Once the compiled decoder has refused the columns, the rows between the ranges come too:
        pyarrow would decode the row group from its start for each range.
        """
        for at, (start, end) in enumerate(spans):
            is_last = at > 0 and not self._is_compilable(columns, [row_group])
            until = spans[-1][1] if is_last else end
            yield from self.rows_between(columns, row_group, start, until, batch_rows=batch_rows)
            if is_last:
                return

    def first_row(self, row_group: int) -> int:
        """Return the position of the first row of a row group; behind the last, that of the end."""
        return self._starts()[row_group]

    def leaps(self, columns: Sequence[str], row_group: int, rows: int) -> bool:
        """Whether `rows_between` skips a gap of so many rows instead of decoding it."""
        return rows >= LEAST_ROWS and self._is_compilable(columns, [row_group])

    def spans(
        self,
        columns: Sequence[str],
        row_group: int,
        rule: Predicate | None,
        leaves: Mapping[tuple[str, ...], str],
        partition: Mapping[str, pa.Scalar],
    ) -> list[tuple[int, int]]:
        """Return ranges of rows of a row group that may match, by their positions in the file.

        The whole row group where only pyarrow can read it, which cannot skip pages.

        Args:
            columns: What is going to be read: ranges with a short gap between them are merged.
            row_group: Which one.
            rule: Over statistics of logical paths (`matching_row_groups`); None keeps all.
            leaves: Path in the file by logical path.
            partition: Values of the file's partition columns.
        """
        first, end = self._starts()[row_group : row_group + 2]
        asked = set() if rule is None else leaves_asked_for(rule, leaves)
        size = self.column_bytes(asked, [row_group])
        if self._paging is None or rule is None or size < _PAGE_FILTER_BYTES:
            return [(first, end)]
        if not (self._paging.is_cheap(size) and self._is_compilable(columns, [row_group])):
            return [(first, end)]
        found: list[tuple[int, int]] = []
        for start, until in self._paging.spans(row_group, rule, leaves, partition):
            left_out = first + start - found[-1][1] if found else 0
            if found and not self.leaps(columns, row_group, left_out):
                found[-1] = found[-1][0], first + until
            else:
                found.append((first + start, first + until))
        return found

    def column_bytes(self, columns: Collection[str], row_groups: Sequence[int]) -> int:
        """Return how many bytes a read of these columns of these row groups takes."""
        places = self._leaves.around(columns)
        groups = [self.metadata.row_group(at) for at in row_groups]
        return sum(group.column(at).total_compressed_size for group in groups for at in places)

    def _within_limit(self, places: Sequence[int], run: Sequence[int], most: int) -> int:
        """Return how many rows to decode at once; what would fill the memory is refused."""
        try:
            for group in run:
                most = rows_at_once(
                    self.metadata, group, places,
                    read_at=self._read_at, limit=self._inflated_limit, most=most,
                )  # fmt: skip
        except InflatedError as error:
            reason = (
                f"{error}, more than a file of its size should and than "
                f"max_inflated_bytes={self._inflated_limit} of ReadOptions allows"
            )
            raise DataFileError(self._table, self.path, reason) from None
        except BadPageError as error:
            raise DataFileError(self._table, self.path, str(error)) from None
        return most

    @property
    def _read_at(self) -> Callable[[int, int], bytes] | None:
        """Gives bytes of the file; None where asking is dear."""
        return None if self._is_remote else lambda at, size: self._source.read_at(size, at)

    def _starts(self) -> list[int]:
        """Return the position of the first row of each row group, and the end."""
        if self._known_starts is None:
            groups = range(self.metadata.num_row_groups)
            counts = [self.metadata.row_group(at).num_rows for at in groups]
            starts = list(accumulate(counts, initial=0))
            if starts[-1] != self.num_rows or min(counts, default=0) < 0:
                raise DataFileError(self._table, self.path, "its footer contradicts itself")
            self._known_starts = starts
        return self._known_starts

    def _fitting(self, run: Sequence[int], batch_rows: int) -> int:
        """Return how many rows to decode at once: wide rows are taken fewer at a time."""
        groups = [self.metadata.row_group(at) for at in run]
        rows = sum(group.num_rows for group in groups)
        return rows_that_fit(rows, sum(group.total_byte_size for group in groups), batch_rows)

    def _reader(self, columns: Sequence[str], run: Sequence[int]) -> pq.ParquetReader:
        """Return the file opened so that texts kept in a dictionary come with it.

        Opened for each run of rows: the size of batches is the reader's, so two runs side by side
        would change each other's, and with it what fits in the memory.
        """
        coded = self._coded(run[0], set(columns))
        # Not `ParquetFile`, which takes no pool: docs/adr/0020 has what the default one costs.
        reader = pq.ParquetReader(pa.system_memory_pool())
        reader.open(
            self._source,
            metadata=self.metadata,
            read_dictionary=sorted(coded),
            pre_buffer=self._is_remote,
            buffer_size=0 if self._is_remote else _LOCAL_BUFFER,
            coerce_int96_timestamp_unit="us",  # nanoseconds end in the year 2262
            thrift_string_size_limit=THRIFT_LIMIT,
            thrift_container_size_limit=THRIFT_LIMIT,
        )
        return reader

    def _coded(self, row_group: int, columns: Collection[str]) -> set[str]:
        """Return those of the columns that are texts kept in a dictionary, by their size.

        Footers do not tell whether a writer gave its dictionary up halfway. A plain text takes
        four bytes for its length alone, a number into a dictionary hardly more than two. Long
        texts are left in their dictionary anyway: repeated in every row, they fill the memory.
        """
        chunks = self.metadata.row_group(row_group)
        found = set()
        for at, field in enumerate(self._leaves.columns):
            # Inside of a struct or list the type would change where nobody expects it.
            if (
                field.path not in columns
                or field.physical_type != "BYTE_ARRAY"
                or "." in field.path
            ):
                continue
            chunk = chunks.column(at)
            if not chunk.has_dictionary_page:
                continue
            is_small = chunk.total_uncompressed_size < 4 * chunk.num_values
            if is_small or has_long_strings(chunk, self._read_at):
                found.add(field.path)
        return found

    def _batches(
        self, columns: Sequence[str], run: Sequence[int], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        leaves = self._leaves.of(columns)
        with self._guarded():
            rows = self._within_limit(leaves, run, self._fitting(run, batch_rows))
            for batch in self._reader(columns, run).iter_batches(
                rows, row_groups=list(run), column_indices=leaves, use_threads=self._threads
            ):
                yield from in_pieces(batch, self._inflated_limit)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Report what Arrow says of a damaged file in our words."""
        try:
            yield
        except (StoreError, DataFileError):
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise DataFileError(self._table, self.path, reason) from error
