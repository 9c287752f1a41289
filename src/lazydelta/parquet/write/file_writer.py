"""Rows -> one Parquet file, with the statistics of its add action.

The caller decides where the file is stored and when it is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.parquet import tuning
from lazydelta.parquet.write.statistics import Statistics, StatisticsPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Encoded", "Encoding", "ParquetEncoder", "dictionary_columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How the files of a write are encoded."""

    codec: str
    level: int | None
    row_group_rows: int
    page_version: Literal["1.0", "2.0"] = "1.0"
    dictionary: tuple[str, ...] | bool = True
    """The leaf columns that are dictionary-encoded; True for all, False for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A finished file."""

    rows: int
    size: int
    stats: str


class ParquetEncoder:
    """A Parquet file that is being written.

    Args:
        sink: The destination.
        schema: The file's columns.
        encoding: Codec, row groups and dictionaries.
        statistics: The columns with statistics.
    """

    def __init__(
        self,
        sink: pa.NativeFile,
        schema: pa.Schema,
        encoding: Encoding,
        statistics: StatisticsPlan,
    ) -> None:
        import pyarrow.parquet as pq

        self._sink = sink
        self._encoding = encoding
        self._statistics = Statistics(statistics)
        self._footers: list[Any] = []
        self._writer = pq.ParquetWriter(
            sink,
            schema,
            compression=encoding.codec,
            compression_level=encoding.level,
            data_page_version=encoding.page_version,
            use_dictionary=_as_list(encoding.dictionary),
            write_statistics=_with_bounds(schema),
            # Half a kilobyte that lets readers, ours included, skip pages.
            write_page_index=True,
            # No Arrow schema in the footer, and decimals in Spark's layout.
            store_schema=False,
            store_decimal_as_integer=True,
            metadata_collector=self._footers,
        )

    @property
    def size(self) -> int:
        """Bytes so far."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write rows as one row group, or several if they exceed the maximum."""
        self._statistics.observe(rows)
        self._writer.write_table(rows, row_group_size=self._encoding.row_group_rows)

    def abandon(self) -> None:
        """Stop writing: the sink is closed without a footer."""
        self._writer.is_open = False

    def close(self) -> Encoded:
        """Write the footer; the sink stays open."""
        self._writer.close()
        footer = self._footers[0]
        stats = self._statistics.to_json(footer)
        return Encoded(rows=footer.num_rows, size=self.size, stats=stats)


def dictionary_columns(rows: pa.Table) -> tuple[str, ...] | bool:
    """Return the leaf columns that repeat their values enough for a dictionary to pay.

    The Parquet writer would notice too, but only after hashing a megabyte of values of each column
    and row group. A sample costs a hundredth of that.
    """
    if rows.num_rows < tuning.DICTIONARY_MIN_ROWS:
        return True
    count, size = tuning.DICTIONARY_SAMPLES, tuning.DICTIONARY_SAMPLE_ROWS
    step = max(rows.num_rows // count, size)
    parts = [rows.slice(position, size) for position in range(0, rows.num_rows, step)]
    sample = pa.concat_tables(parts[:count])
    encoded: list[str] = []
    for field, column in zip(sample.schema, sample.columns, strict=True):
        if pa.types.is_nested(field.type):
            encoded += [name for name, _ in _leaves(field.name, field.type)]
        elif not pa.types.is_boolean(field.type):
            distinct = pc.count_distinct(column, mode="only_valid").as_py()
            if distinct * 2 <= len(column) - column.null_count:
                encoded.append(field.name)
    return tuple(encoded)


def _with_bounds(schema: pa.Schema) -> list[str] | bool:
    """Return the leaf columns that have bounds in the footer: all but floats.

    Parquet excludes NaN from bounds. Spark and deltalake, for which NaN is the greatest value, skip
    row groups by them nevertheless, and would lose its rows.
    """
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    bounded = [name for name, kind in leaves if not pa.types.is_floating(kind)]
    return True if len(bounded) == len(leaves) else bounded or False


def _leaves(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the leaves of a column by their Parquet path, with their types."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{name}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{name}.key_value.key", kind.key_type)
        yield from _leaves(f"{name}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{name}.list.element", kind.value_type)
    else:
        yield name, kind


def _as_list(dictionary: tuple[str, ...] | bool) -> list[str] | bool:
    if isinstance(dictionary, bool):
        return dictionary
    return list(dictionary) or False
