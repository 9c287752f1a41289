"""A projection and a filter in pyarrow's terms: the scan that serves them, and what is left to do.

The scan gets the columns that are needed and what of the filter can be translated; the rows then
pass the filter itself, by pyarrow's rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pds

from lazydelta.errors import PredicateError
from lazydelta.interop.arrow_filter import read_filter
from lazydelta.interop.source import narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow.compute as pc

    from lazydelta.scan import ReadOptions, Scan

__all__ = ["Pushdown"]


class Pushdown:
    """One read of a scan.

    Args:
        scan: What is read.
        schema: The schema of all its rows.
        columns: Names, or expressions by name; None is all.
        where: Which rows to keep; None keeps all.
        options: How rows are read.

    Raises:
        pyarrow.ArrowInvalid: The filter does not fit the schema.
        KeyError: A column is not in the schema.
    """

    def __init__(
        self,
        scan: Scan,
        schema: pa.Schema,
        *,
        columns: Any,
        where: pc.Expression | None,
        options: ReadOptions | None,
    ) -> None:
        self._base = scan
        self._columns = columns if columns is None or isinstance(columns, dict) else list(columns)
        self._where = where
        self._options = options
        self._known = None if where is None else read_filter(where, scan.snapshot.schema)
        names = schema.names
        self._is_plain = isinstance(self._columns, list) and all(n in names for n in self._columns)
        self._needed = self._needed_columns(schema)
        self.schema: pa.Schema = self._checked(schema)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for reads that give the same."""
        where = None
        if self._known is not None:
            where = self._known.key or str(self._where)
        columns = self._columns
        if isinstance(columns, dict):
            return (where, tuple((name, str(value)) for name, value in columns.items()))
        return (where, None if columns is None else tuple(columns))

    def scan(self) -> Scan:
        """Return the scan that gives the rows, perhaps more of them."""
        where = None if self._known is None else self._known.predicate
        if where is None or self._base.limit is not None:  # a limit counts rows before the filter
            return narrowed(self._base, columns=self._needed)
        try:
            return narrowed(self._base, columns=self._needed, where=where)
        except PredicateError:
            return narrowed(self._base, columns=self._needed)

    def batches(self, note: Callable[[Scan], None]) -> Iterator[pa.RecordBatch]:
        """Yield the rows; `note` is told which scan is run."""
        scan = self.scan()
        note(scan)
        with scan.to_batches(self._options) as batches:
            for batch in batches:
                for kept in self._filtered(batch):
                    yield from self._projected(kept)

    def _filtered(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._where is None:
            yield batch
            return
        for kept in pa.Table.from_batches([batch]).filter(self._where).to_batches():
            if kept.num_rows:
                yield kept

    def _projected(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._columns is None:
            yield batch
        elif self._is_plain:
            yield batch.select(self._columns)
        else:
            yield from pds.InMemoryDataset(batch).to_table(columns=self._columns).to_batches()

    def _checked(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the result; what does not fit fails now and not at the first row."""
        empty = schema.empty_table()
        if self._where is not None:
            empty.filter(self._where)
        if self._columns is None:
            return schema
        if self._is_plain:
            return empty.select(self._columns).schema
        return pds.InMemoryDataset(empty).to_table(columns=self._columns).schema

    def _needed_columns(self, schema: pa.Schema) -> list[str] | None:
        """Return the columns of the table to read; None is all."""
        available = [field.name for field in self._base.snapshot.schema.fields]
        if self._base.columns is not None:
            available = [name for name in self._base.columns if name in available]
        needed: set[str] = set()
        sources: list[Any] = [] if self._known is None else [self._known.columns]
        if self._is_plain:
            sources.append(frozenset(self._columns or ()))
        elif isinstance(self._columns, dict):
            table = self._base.snapshot.schema
            sources += [read_filter(value, table).columns for value in self._columns.values()]
        else:
            sources.append(None)
        for source in sources:
            if source is None:
                return None
            needed |= source
        if self._where is not None and not needed & set(schema.names):
            return None  # a filter of constants needs rows to decide on
        return [name for name in available if name in needed]
