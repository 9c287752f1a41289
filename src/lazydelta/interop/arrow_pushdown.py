"""Push a pyarrow projection and filter into a scan, and apply what remains.

The scan reads the columns needed and prunes by the translatable part of the filter. pyarrow then
applies the whole filter to the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pds

from lazydelta.errors import PredicateError
from lazydelta.interop.arrow_filters import translate_arrow_filter
from lazydelta.interop.float_semantics import with_nan_greatest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow.compute as pc

    from lazydelta.config import ReadOptions
    from lazydelta.interop.adapter_source import RowScan

__all__ = ["ArrowPushdown"]


class ArrowPushdown:
    """One read of a scan.

    Args:
        scan: The source of the rows.
        columns: Names, or expressions by name; None is all.
        where: Which rows to keep; None keeps all.
        options: How rows are read.
        for_datafusion: Whether the filter orders NaN above all numbers and all fields are
            nullable. DataFusion relies on NOT NULL: its results are wrong for files that violate
            it.

    Raises:
        pyarrow.ArrowInvalid: The filter does not fit the schema.
        KeyError: A column is not in the schema.
    """

    def __init__(
        self,
        scan: RowScan,
        *,
        columns: Any,
        where: pc.Expression | None,
        options: ReadOptions | None,
        for_datafusion: bool = False,
    ) -> None:
        self._base = scan
        self._columns = columns if columns is None or isinstance(columns, dict) else list(columns)
        self._where = where
        self._options = options
        self._translated = (
            None if where is None else translate_arrow_filter(where, scan.filterable(options))
        )
        self._output = output = scan.output_schema(options, views=False)
        schema, names = output.plain, output.plain.names
        if where is not None and for_datafusion:
            self._where = with_nan_greatest(where, schema)
        self._shows_nullable = for_datafusion
        self._is_plain = isinstance(self._columns, list) and all(n in names for n in self._columns)
        self._needed = self._needed_columns(schema)
        self.schema: pa.Schema = self._encoded(self._checked(schema), output.schema)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for reads that return the same rows."""
        where = None
        if self._translated is not None:
            where = self._translated.key or str(self._where)
        columns = self._columns
        if isinstance(columns, dict):
            return (where, tuple((name, str(value)) for name, value in columns.items()))
        return (where, None if columns is None else tuple(columns))

    def scan(self) -> RowScan:
        """Return the narrowed scan; it may return more rows than the filter keeps."""
        where = None if self._translated is None else self._translated.predicate
        if where is None or self._base.limit is not None:  # the limit counts rows before the filter
            return self._base.narrowed(columns=self._needed)
        try:
            return self._base.narrowed(columns=self._needed, where=where)
        except PredicateError:
            return self._base.narrowed(columns=self._needed)

    def batches(self, note: Callable[[RowScan], None]) -> Generator[pa.RecordBatch]:
        """Yield the rows; `note` receives the scan that is read."""
        scan = self.scan()
        note(scan)
        with scan.to_batches(self._options, encoded=False) as batches:
            for batch in batches:
                for kept in self._filtered(batch):
                    for projected in self._projected(kept):
                        yield self._output.converted(projected, self.schema)

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

    def _encoded(self, plain: pa.Schema, output: pa.Schema) -> pa.Schema:
        """Return the schema of the result, with the encodings of columns passed through."""
        if self._columns is not None and not self._is_plain:
            return plain  # pyarrow decides the types of computed columns
        names = output.names if self._columns is None else plain.names
        fields = [output.field(name) for name in names]
        if self._shows_nullable:
            fields = [field.with_nullable(True) for field in fields]
        return pa.schema(fields, output.metadata if self._columns is None else None)

    def _checked(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the result; raise early for an invalid filter or projection."""
        empty = schema.empty_table()
        if self._where is not None:
            empty.filter(self._where)
        if self._columns is None:
            return schema
        if self._is_plain:
            return empty.select(self._columns).schema
        return pds.InMemoryDataset(empty).to_table(columns=self._columns).schema

    def _needed_columns(self, schema: pa.Schema) -> list[str] | None:
        """Return the columns to read; None is all."""
        needed: set[str] = set()
        sources: list[Any] = [] if self._translated is None else [self._translated.columns]
        if self._is_plain:
            sources.append(frozenset(self._columns or ()))
        elif isinstance(self._columns, dict):
            table = self._base.filterable(self._options)
            sources += [
                translate_arrow_filter(value, table).columns for value in self._columns.values()
            ]
        else:
            sources.append(None)
        for source in sources:
            if source is None:
                return None
            needed |= source
        if self._where is not None and not needed & set(schema.names):
            return None  # a constant filter still needs rows to apply to
        return [name for name in self._base.names if name in needed]
