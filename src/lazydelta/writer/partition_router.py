"""Which rows go to which partition, and where the files of a partition lie.

Rows are sorted by partition with Arrow and numpy, many at a time; only the distinct values are
looked at one by one. Pure: no I/O.
"""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.errors import SchemaError
from lazydelta.schema import to_arrow_type
from lazydelta.schema.mapping import physical_name
from lazydelta.schema.values import format_partition_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.schema import DataType, StructType

__all__ = ["Partition", "PartitionRouter", "logged_path"]

_NULL = "__HIVE_DEFAULT_PARTITION__"
# What Hive and Spark escape in directory names, what no reader of ours would open, and the tilde,
# which deltalake spells in two ways, so that it misses the file.
_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\~\x7f-\x9f{[\\]^\u2028\u2029]")
# Other engines compare paths as texts: what a URL need not encode must stay as it is.
_PLAIN_IN_URLS = "/=!$&()+,;@"
_LONGEST_NAME = 255
_LONGEST_DIRECTORY = 512
"""Keys of object stores have 1,024 bytes, and the table's own place and the file need some."""
_PREFIX_CHARACTERS = string.ascii_letters + string.digits
_FEW = 1 << 16
_POOL = pa.system_memory_pool()
"""Sorted rows are large and short-lived: the system's pool gives them back (ADR 0020)."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One combination of partition values."""

    values: tuple[tuple[str, str | None], ...]
    """Physical name and text of each column, as the log has them; None is null."""
    directory: str
    """Where its files go, below the table's root; empty is the root, and plain (not encoded)."""


class PartitionRouter:
    """Splits rows by the partition columns of a table.

    Args:
        schema: The table's logical schema.
        columns: Its partition columns, in the table's order.
        mode: Its column mapping. Where columns are mapped, directories say nothing: names may
            change, so files are spread over random prefixes, as the protocol advises.
    """

    def __init__(self, schema: StructType, columns: Sequence[str], mode: str) -> None:
        fields = {part.name: part for part in schema}
        self._columns = tuple(columns)
        self._types: tuple[DataType, ...] = tuple(fields[name].type for name in columns)
        self._names = tuple(physical_name(fields[name], mode) for name in columns)
        self._is_mapped = mode != "none"
        self._known: dict[tuple[str | None, ...], Partition] = {}
        if not columns:
            self._known[()] = Partition((), _random_prefix() if self._is_mapped else "")

    def split(
        self, keys: pa.RecordBatch, rows: pa.RecordBatch
    ) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yield the rows of each partition; in a partition they keep their order.

        Args:
            keys: Has the partition columns.
            rows: What goes into files, row by row beside `keys`.
        """
        if not self._columns:
            yield self._known[()], rows
            return
        codes, texts = self._codes(keys)
        present, codes = _dense(codes)
        if len(present) > 1:
            counts = np.bincount(codes, minlength=len(present))
            if (codes[1:] < codes[:-1]).any():
                order = np.argsort(codes, kind="stable")
                rows = _taken(rows, from_numpy(order))
        else:
            counts = np.array([rows.num_rows])
        ends = np.cumsum(counts)
        for at, code in enumerate(present.tolist()):
            values = _decoded(code, texts)
            yield self._partition(values), rows.slice(int(ends[at] - counts[at]), int(counts[at]))

    def _codes(self, keys: pa.RecordBatch) -> tuple[np.ndarray, list[list[str | None]]]:
        """Number the combinations of values: one number per row, and each column's texts."""
        codes = np.zeros(keys.num_rows, np.int64)
        texts: list[list[str | None]] = []
        combinations = 1
        for name, kind in zip(self._columns, self._types, strict=True):
            coded = keys.column(name).dictionary_encode(null_encoding="encode")
            values = _values(coded.dictionary, kind, name)
            found = [_text(value, kind, name) for value in values]
            distinct = list(dict.fromkeys(found))  # null and the empty text are one
            places = {text: at for at, text in enumerate(distinct)}
            spread = np.array([places[text] for text in found], np.int64)
            combinations *= max(len(distinct), 1)
            if combinations >= 1 << 62:
                raise SchemaError(f"too many partitions in {keys.num_rows} rows", name)
            codes = codes * max(len(distinct), 1) + spread[to_numpy(coded.indices)]
            texts.append(distinct)
        return codes, texts

    def _partition(self, values: tuple[str | None, ...]) -> Partition:
        found = self._known.get(values)
        if found is None:
            pairs = tuple(zip(self._names, values, strict=True))
            found = self._known[values] = Partition(pairs, self._directory(values))
        return found

    def _directory(self, values: tuple[str | None, ...]) -> str:
        if self._is_mapped:
            return _random_prefix()
        parts = [
            f"{_escaped(name)}={_NULL if text is None else _escaped(text)}"
            for name, text in zip(self._columns, values, strict=True)
        ]
        directory = "/".join(parts)
        names_fit = all(len(part.encode()) <= _LONGEST_NAME for part in parts)
        if names_fit and len(directory.encode()) <= _LONGEST_DIRECTORY:
            return directory
        return _random_prefix()  # directories are for people; the log has the values


def logged_path(plain: str) -> str:
    """Return a plain path as the log writes it: percent-encoded, to be decoded once.

    >>> logged_path("day=1%3A2 pm/a.parquet")
    'day=1%253A2%20pm/a.parquet'
    """
    return quote(plain, safe=_PLAIN_IN_URLS)


def _escaped(text: str) -> str:
    def escape(found: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in found[0].encode())

    return _ESCAPED.sub(escape, text)


def _random_prefix() -> str:
    return "".join(secrets.choice(_PREFIX_CHARACTERS) for _ in range(2))


def _values(dictionary: pa.Array, kind: DataType, column: str) -> list[Any]:
    try:
        return list(dictionary.cast(to_arrow_type(kind)).to_pylist())
    except (OverflowError, ValueError) as error:
        reason = f"a {kind} cannot be a partition value: {error}"
        raise SchemaError(f"partition column {column!r}: {reason}") from None


def _text(value: Any, kind: DataType, column: str) -> str | None:
    try:
        return format_partition_value(value, kind)
    except SchemaError as error:
        raise SchemaError(f"partition column {column!r}: {error.reason}") from None


def _dense(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes that occur, ascending, and the rows numbered by their places."""
    top = int(codes.max(initial=0)) + 1
    if top <= max(_FEW, len(codes)):
        present = np.flatnonzero(np.bincount(codes, minlength=top))
        places = np.zeros(top, np.int64)
        places[present] = np.arange(len(present))
        codes = places[codes]
    else:
        present, codes = np.unique(codes, return_inverse=True)
    # Sixteen bits are sorted by counting, in one pass; more only by comparing.
    return present, codes.astype(np.uint16) if len(present) <= _FEW else codes


def _decoded(code: int, texts: list[list[str | None]]) -> tuple[str | None, ...]:
    values: list[str | None] = []
    for column in reversed(texts):
        code, at = divmod(code, max(len(column), 1))
        values.append(column[at])
    return tuple(reversed(values))


def _taken(rows: pa.RecordBatch, order: pa.Array) -> pa.RecordBatch:
    arrays = [
        pc.take(column, order, boundscheck=False, memory_pool=_POOL) for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
