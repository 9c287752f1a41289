"""Which row groups of a data file may hold a row that a predicate wants, from its footer alone.

The rule is a predicate over statistics (`expressions.to_skipping`), FALSE only if no row can match;
here it is asked of every row group at once, and by `parquet.row_ranges` of smaller runs of rows. A bound
that is missing, of another type than the table's, or not one we know how to read is unknown, and
what is unknown is kept.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lazydelta.expressions import evaluate
from lazydelta.parquet.datetime_rebase import first_certain
from lazydelta.schema import DecimalType
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.schema import DataType

__all__ = [
    "ColumnBounds",
    "Facts",
    "int96_leaves",
    "leaf_columns",
    "leaves_below",
    "matching_row_groups",
    "may_match",
]

_INTEGERS = ("byte", "short", "integer", "long", "date")
_FLOATS = ("float", "double")
_TO_MICROS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
_INT64 = range(-(2**63), 2**63)


def leaf_columns(metadata: pq.FileMetaData) -> pq.ParquetSchema:
    """Return the leaf columns of a file.

    Not `metadata.schema`: a footer that was asked for it and its schema hold each other, until the
    garbage collector comes by. What lies between them in memory cannot be given back either, which
    made a fifth of the peak of a long read.
    """
    return pq.ParquetSchema(metadata)


def int96_leaves(metadata: pq.FileMetaData) -> frozenset[str]:
    """Return the paths of the leaves whose values are times of 96 bits."""
    columns = leaf_columns(metadata)
    leaves = [columns.column(at) for at in range(len(columns))]
    return frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96")


def leaves_below(paths: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return which leaves are among some columns, or inside of them.

    Each path is looked up by its own beginnings: tables have thousands of columns, and to hold
    every path against every column would take longer than to decode them.

    >>> leaves_below(["a", "ab", "s.x", "s.y.z"], ["a", "s.y"])
    [0, 3]
    """
    wanted = set(columns)
    return [
        at
        for at, path in enumerate(paths)
        if path in wanted
        or any(path[:end] in wanted for end, sign in enumerate(path) if sign == ".")
    ]


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
        leaves: Path in the file by logical path; a path that is not there is null in all rows.
        partition: Values of the file's partition columns.
    """
    rows = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    groups = [at for at, count in enumerate(rows) if count]
    if rule is None or not groups:
        return groups
    kept = may_match(rule, _RowGroups(metadata, rows, leaves, partition))
    return [at for at in groups if kept[at]]


def may_match(rule: Predicate, facts: Facts) -> list[bool]:
    """Return for which runs of rows the rule is not FALSE."""
    found = evaluate(rule, facts.stat, len(facts.rows))
    kept: list[bool] = pc.or_kleene(found, pc.is_null(found)).to_pylist()
    return kept


class Facts(ABC):
    """Statistics of runs of rows, one value for each run.

    Args:
        metadata: The footer.
        rows: How many rows each run has.
        leaves: Path in the file by logical path; a path that is not there is null in all rows.
        partition: Values of the file's partition columns.
    """

    def __init__(
        self,
        metadata: pq.FileMetaData,
        rows: Sequence[int],
        leaves: Mapping[tuple[str, ...], str],
        partition: Mapping[str, pa.Scalar],
    ) -> None:
        self.metadata = metadata
        self.rows = rows
        self.leaves = leaves
        self.partition = partition
        self.columns = leaf_columns(metadata)
        self.places: dict[str, int] = {}
        for at in range(len(self.columns)):
            path = self.columns.column(at).path
            # A dot may be part of a name, so a path may mean two leaves: then it means none.
            self.places[path] = -1 if path in self.places else at

    @abstractmethod
    def known(self, place: int) -> Sequence[Any]:
        """Return what is known of a column in each run, in pyarrow's words; None is nothing."""

    def stat(self, stat: Any) -> pa.Array:
        """Return a fact for every run; null is unknown."""
        if stat.kind == "partition":
            return pa.repeat(self.partition[stat.path[0]], len(self.rows))
        if stat.kind == "num_records":
            return build_array(self.rows, stat.type)
        name = self.leaves.get(stat.path)
        unknown: list[Any] = [None] * len(self.rows)
        if name is None:  # a column that this file does not have
            return build_array(self.rows if stat.kind == "null_count" else unknown, stat.type)
        place = self.places.get(name, -1)
        known = unknown if place < 0 else self.known(place)
        if stat.kind == "null_count":
            counts = [c.null_count if c and c.has_null_count else None for c in known]
            return build_array(counts, stat.type)
        if not any(known):
            return build_array(unknown, stat.type)
        column = self.columns.column(place)
        first = first_certain(self.metadata, stat.type)
        bounds = ColumnBounds(column, stat.type, upper=stat.kind == "max", first=first)
        return build_array([bounds.of(values) for values in known], stat.type)


class _RowGroups(Facts):
    """Each row group is a run."""

    def known(self, place: int) -> Sequence[Any]:
        groups = range(len(self.rows))
        return [self.metadata.row_group(at).column(place).statistics for at in groups]


class ColumnBounds:
    """Turns the raw bounds of one Parquet column into values of a Delta type, or None.

    Args:
        column: Of the footer.
        kind: The Delta type.
        upper: Whether the greatest value is asked for, or the least.
        first: Where values begin that readers get as they are; None if all are.
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
        """Return the bound of a column chunk; None if it has none that we can use."""
        if chunk is None or not chunk.has_min_max:
            return None
        if self.first is not None:
            least = self._value(chunk.min_raw)
            if least is None or least < self.first:
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
        return self._text(raw) if name == "string" else None

    def _integer(self, raw: Any, name: str) -> int | None:
        signed = self.details.get("isSigned", True)
        logical = ("DATE",) if name == "date" else ("INT", "NONE")
        known = self.physical in ("INT32", "INT64") and self.logical in logical
        return raw if known and signed else None

    def _micros(self, raw: Any) -> int | None:
        times, parts = _TO_MICROS.get(self.details.get("timeUnit", ""), (0, 1))
        if self.physical != "INT64" or not times:
            return None
        value = -(-raw * times // parts) if self.upper else raw * times // parts
        return value if value in _INT64 else None

    def _decimal(self, raw: Any, kind: DecimalType) -> Decimal | None:
        if self.logical != "DECIMAL" or self.details.get("scale") != kind.scale:
            return None
        whole = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        value = Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -kind.scale))
        return value if abs(whole) < 10**kind.precision else None

    def _text(self, raw: Any) -> str | None:
        if self.physical != "BYTE_ARRAY":
            return None
        if isinstance(raw, str):
            return raw
        try:  # writers may cut in the middle of a character
            return bytes(raw).decode(errors="strict" if self.upper else "ignore")
        except UnicodeDecodeError:
            return None
