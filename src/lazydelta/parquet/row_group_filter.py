"""Row-group filter: skip row groups of a data file by the statistics of its footer.

The rule is a predicate over statistics (`to_skipping`), FALSE only if no row can match. Here it is
evaluated for all row groups at once, and by `parquet.pages.row_ranges` for smaller ranges of rows.
A bound that is missing or not of the table's type is unknown, and what is unknown is kept.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta import expressions
from lazydelta.parquet.datetime_rebase import first_unambiguous
from lazydelta.parquet.footer.leaf_index import leaf_columns
from lazydelta.schema import DecimalType
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from lazydelta.expressions import Predicate
    from lazydelta.schema import DataType

__all__ = ["ColumnBounds", "RangeStatistics", "matching_row_groups", "may_match"]

_INTEGERS = ("byte", "short", "integer", "long", "date")
_FLOATS = ("float", "double")
_TO_MICROS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
_INT64 = range(-(2**63), 2**63)


def matching_row_groups(
    metadata: pq.FileMetaData,
    rule: Predicate | None,
    leaves: Mapping[tuple[str, ...], str],
    partition: Mapping[str, pa.Scalar],
) -> list[int]:
    """Return the row groups that have rows, and for which the rule is not FALSE.

    Args:
        metadata: The footer.
        rule: Over statistics of logical paths; None keeps all.
        leaves: Path in the file by logical path; a missing path is null in all rows.
        partition: Partition values of the file.
    """
    rows = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    groups = [index for index, count in enumerate(rows) if count]
    if rule is None or not groups:
        return groups
    kept = may_match(rule, _RowGroups(metadata, rows, leaves, partition))
    return [index for index in groups if kept[index]]


def may_match(rule: Predicate, ranges: RangeStatistics) -> list[bool]:
    """Return for which ranges of rows the rule is not FALSE."""
    result = expressions.evaluate(rule, ranges.stat, len(ranges.num_rows))
    kept: list[bool] = pc.or_kleene(result, pc.is_null(result)).to_pylist()
    return kept


class RangeStatistics(ABC):
    """Statistics of ranges of rows, one value for each range.

    Args:
        metadata: The footer.
        num_rows: Rows of each range.
        leaves: Path in the file by logical path; a missing path is null in all rows.
        partition: Partition values of the file.
    """

    def __init__(
        self,
        metadata: pq.FileMetaData,
        num_rows: Sequence[int],
        leaves: Mapping[tuple[str, ...], str],
        partition: Mapping[str, pa.Scalar],
    ) -> None:
        self.metadata = metadata
        self.num_rows = num_rows
        self.leaves = leaves
        self.partition = partition
        self.columns = leaf_columns(metadata)
        self.indices: dict[str, int] = {}
        """Leaf column by path; -1 if ambiguous, because a name may contain a dot."""
        for index in range(len(self.columns)):
            path = self.columns.column(index).path
            self.indices[path] = -1 if path in self.indices else index

    @abstractmethod
    def column_statistics(self, leaf: int) -> Sequence[Any]:
        """Return the statistics of a column for each range, as pyarrow's; None is unknown."""

    def stat(self, stat: Any) -> pa.Array:
        """Return one statistic for every range; null is unknown."""
        if stat.kind == "partition":
            return pa.repeat(self.partition[stat.path[0]], len(self.num_rows))
        if stat.kind == "num_records":
            return build_array(self.num_rows, stat.type)
        path = self.leaves.get(stat.path)
        unknown: list[Any] = [None] * len(self.num_rows)
        if path is None:  # a column that this file does not have
            return build_array(self.num_rows if stat.kind == "null_count" else unknown, stat.type)
        leaf = self.indices.get(path, -1)
        statistics = unknown if leaf < 0 else self.column_statistics(leaf)
        if stat.kind == "null_count":
            counts = [s.null_count if s and s.has_null_count else None for s in statistics]
            return build_array(counts, stat.type)
        if not any(statistics):
            return build_array(unknown, stat.type)
        column = self.columns.column(leaf)
        first = first_unambiguous(self.metadata, stat.type)
        bounds = ColumnBounds(column, stat.type, upper=stat.kind == "max", first=first)
        return build_array([bounds.of(values) for values in statistics], stat.type)


class _RowGroups(RangeStatistics):
    """Each row group is a range."""

    def column_statistics(self, leaf: int) -> Sequence[Any]:
        groups = range(len(self.num_rows))
        return [self.metadata.row_group(index).column(leaf).statistics for index in groups]


class ColumnBounds:
    """Converts the raw bounds of one Parquet column to values of a Delta type.

    Args:
        column: The leaf column.
        kind: The Delta type.
        upper: Whether to return the upper bound, or the lower one.
        first: The first value that needs no rebase (`first_unambiguous`); None if none needs one.
    """

    def __init__(
        self, column: Any, kind: DataType, *, upper: bool, first: int | None = None
    ) -> None:
        self.kind = kind
        self.upper = upper
        self.first = first
        self.physical = column.physical_type
        self.logical = column.logical_type.type
        self.details = orjson.loads(column.logical_type.to_json())

    def of(self, chunk: Any) -> Any:
        """Return the bound of a column chunk; None without a usable one."""
        if chunk is None or not chunk.has_min_max:
            return None
        if self.first is not None:
            lower = self._value(chunk.min_raw)
            if lower is None or lower < self.first:
                return None
        return self._value(chunk.max_raw if self.upper else chunk.min_raw)

    def _value(self, raw: Any) -> Any:
        name = str(self.kind)
        if isinstance(self.kind, DecimalType):
            return self._decimal(raw, self.kind)
        if name == "boolean":
            return raw if isinstance(raw, bool) else None
        if name in _INTEGERS:
            return self._integer(raw, name)
        if name in _FLOATS:
            usable = self.physical in ("FLOAT", "DOUBLE") and not math.isnan(raw)
            return float(raw) if usable else None
        if name in ("timestamp", "timestamp_ntz"):
            return self._micros(raw)
        return self._string(raw) if name == "string" else None

    def _integer(self, raw: Any, name: str) -> int | None:
        signed = self.details.get("isSigned", True)
        logical = ("DATE",) if name == "date" else ("INT", "NONE")
        is_integer = self.physical in ("INT32", "INT64") and self.logical in logical
        return raw if is_integer and signed else None

    def _micros(self, raw: Any) -> int | None:
        factor, divisor = _TO_MICROS.get(self.details.get("timeUnit", ""), (0, 1))
        if self.physical != "INT64" or not factor:
            return None
        value = -(-raw * factor // divisor) if self.upper else raw * factor // divisor
        return value if value in _INT64 else None

    def _decimal(self, raw: Any, kind: DecimalType) -> Decimal | None:
        if self.logical != "DECIMAL" or self.details.get("scale") != kind.scale:
            return None
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))
        return value if abs(unscaled) < 10**kind.precision else None

    def _string(self, raw: Any) -> str | None:
        if self.physical != "BYTE_ARRAY":
            return None
        if isinstance(raw, str):
            return raw
        try:  # writers may truncate in the middle of a character
            return bytes(raw).decode(errors="strict" if self.upper else "ignore")
        except UnicodeDecodeError:
            return None
