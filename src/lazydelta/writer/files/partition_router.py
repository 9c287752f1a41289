"""Split rows by partition values, and name the directories of partitions.

Rows are sorted by partition with Arrow and numpy; Python handles only the distinct values. Pure:
no I/O.
"""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.errors import SchemaError
from lazydelta.schema import to_arrow_type
from lazydelta.schema.mapping import physical_name
from lazydelta.schema.values import format_partition_value
from lazydelta.writer import tuning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.schema import DataType, StructType

__all__ = [
    "Partition",
    "PartitionRouter",
    "encode_path",
    "escape_name",
    "partition_directory",
    "partition_values_of",
]

_NULL = "__HIVE_DEFAULT_PARTITION__"
# Characters that Hive and Spark escape in directory names, those that our own reader refuses, and
# the tilde, which deltalake encodes inconsistently and then misses the file.
_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\~\x7f-\x9f{[\\]^\u2028\u2029]")
# Other engines compare paths as strings: characters that a URL need not encode stay unencoded.
_SAFE_IN_URLS = "/=!$&()+,;@"
_PREFIX_CHARACTERS = string.ascii_letters + string.digits
_UINT16_VALUES = 1 << 16
_POOL = pa.system_memory_pool()
"""Sorted rows are large and short-lived: the system allocator returns the memory (ADR 0020)."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One combination of partition values."""

    values: tuple[tuple[str, str | None], ...]
    """Physical name and serialized value of each column, as in the log; None is null."""
    directory: str
    """Directory of its files relative to the table's root, not percent-encoded; "" is the root."""


class PartitionRouter:
    """Splits rows by the partition columns of a table.

    Args:
        schema: The table's logical schema.
        columns: Its partition columns, in the table's order.
        mode: Its column mapping mode. Under column mapping, directories are random prefixes, as
            the protocol recommends, because column names may change.
    """

    def __init__(self, schema: StructType, columns: Sequence[str], mode: str) -> None:
        fields = {part.name: part for part in schema}
        self._columns = tuple(columns)
        self._types: tuple[DataType, ...] = tuple(fields[name].type for name in columns)
        self._names = tuple(physical_name(fields[name], mode) for name in columns)
        self._is_mapped = mode != "none"
        self._partitions: dict[tuple[str | None, ...], Partition] = {}
        if not columns:
            self._partitions[()] = Partition((), _random_prefix() if self._is_mapped else "")

    def split(
        self, keys: pa.RecordBatch, rows: pa.RecordBatch
    ) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yield the rows of each partition; in a partition they keep their order.

        Args:
            keys: The partition columns.
            rows: The data columns of the same rows.
        """
        if not self._columns:
            yield self._partitions[()], rows
            return
        codes, columns = self._codes(keys)
        present, codes = _dense(codes)
        if len(present) > 1:
            counts = np.bincount(codes, minlength=len(present))
            if (codes[1:] < codes[:-1]).any():
                order = np.argsort(codes, kind="stable")
                rows = _take(rows, from_numpy(order))
        else:
            counts = np.array([rows.num_rows])
        ends = np.cumsum(counts)
        for index, code in enumerate(present.tolist()):
            start, count = int(ends[index] - counts[index]), int(counts[index])
            yield self._partition(_decode(code, columns)), rows.slice(start, count)

    def _codes(self, keys: pa.RecordBatch) -> tuple[np.ndarray, list[list[str | None]]]:
        """Return a code per row for its combination of values, and the values of each column."""
        codes = np.zeros(keys.num_rows, np.int64)
        columns: list[list[str | None]] = []
        combinations = 1
        for name, kind in zip(self._columns, self._types, strict=True):
            coded = keys.column(name).dictionary_encode(null_encoding="encode")
            values = _to_python(coded.dictionary, kind, name)
            serialized = [_serialize(value, kind, name) for value in values]
            distinct = list(dict.fromkeys(serialized))  # the empty string serializes as null
            indices = {value: index for index, value in enumerate(distinct)}
            remapped = np.array([indices[value] for value in serialized], np.int64)
            combinations *= max(len(distinct), 1)
            if combinations >= 1 << 62:
                raise SchemaError(f"too many partitions in {keys.num_rows} rows", name)
            codes = codes * max(len(distinct), 1) + remapped[to_numpy(coded.indices)]
            columns.append(distinct)
        return codes, columns

    def _partition(self, values: tuple[str | None, ...]) -> Partition:
        partition = self._partitions.get(values)
        if partition is None:
            pairs = tuple(zip(self._names, values, strict=True))
            partition = self._partitions[values] = Partition(pairs, self._directory(values))
        return partition

    def _directory(self, values: tuple[str | None, ...]) -> str:
        if self._is_mapped:
            return _random_prefix()
        directory = partition_directory(self._columns, values)
        parts = directory.split("/")
        names_fit = all(len(part.encode()) <= tuning.MAX_NAME_BYTES for part in parts)
        if names_fit and len(directory.encode()) <= tuning.MAX_DIRECTORY_BYTES:
            return directory
        return _random_prefix()  # readers take partition values from the log, not from paths


def encode_path(plain: str) -> str:
    """Return a path as the log stores it: percent-encoded once.

    >>> encode_path("day=1%3A2 pm/a.parquet")
    'day=1%253A2%20pm/a.parquet'
    """
    return quote(plain, safe=_SAFE_IN_URLS)


def partition_directory(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the directory of a partition, as Hive and Spark name it.

    >>> partition_directory(["day", "b"], ["1:2", None])
    'day=1%3A2/b=__HIVE_DEFAULT_PARTITION__'
    """
    return "/".join(
        f"{escape_name(name)}={_NULL if value is None else escape_name(value)}"
        for name, value in zip(columns, values, strict=True)
    )


def partition_values_of(directory: str) -> dict[str, str | None]:
    """Return the partition values that a directory names; none where its names have no `=`.

    >>> partition_values_of("_change_data/day=1%3A2/b=__HIVE_DEFAULT_PARTITION__")
    {'day': '1:2', 'b': None}
    """
    pairs = (part.partition("=") for part in directory.split("/") if "=" in part)
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}


def escape_name(value: str) -> str:
    """Return a column name or value as the names of partition directories have it.

    >>> escape_name("a:b")
    'a%3Ab'
    """

    def percent_encode(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode())

    return _ESCAPED.sub(percent_encode, value)


def _random_prefix() -> str:
    return "".join(secrets.choice(_PREFIX_CHARACTERS) for _ in range(2))


def _to_python(dictionary: pa.Array, kind: DataType, column: str) -> list[Any]:
    try:
        return list(dictionary.cast(to_arrow_type(kind)).to_pylist())
    except (OverflowError, ValueError) as error:
        reason = f"a {kind} cannot be a partition value: {error}"
        raise SchemaError(f"partition column {column!r}: {reason}") from None


def _serialize(value: Any, kind: DataType, column: str) -> str | None:
    try:
        return format_partition_value(value, kind)
    except SchemaError as error:
        raise SchemaError(f"partition column {column!r}: {error.reason}") from None


def _dense(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct codes, ascending, and each row's index into them."""
    top = int(codes.max(initial=0)) + 1
    if top <= max(_UINT16_VALUES, len(codes)):
        present = np.flatnonzero(np.bincount(codes, minlength=top))
        places = np.zeros(top, np.int64)
        places[present] = np.arange(len(present))
        codes = places[codes]
    else:
        present, codes = np.unique(codes, return_inverse=True)
    # numpy sorts 16-bit integers with a radix sort, wider ones by comparison.
    return present, codes.astype(np.uint16) if len(present) <= _UINT16_VALUES else codes


def _decode(code: int, columns: list[list[str | None]]) -> tuple[str | None, ...]:
    values: list[str | None] = []
    for column in reversed(columns):
        code, index = divmod(code, max(len(column), 1))
        values.append(column[index])
    return tuple(reversed(values))


def _take(rows: pa.RecordBatch, order: pa.Array) -> pa.RecordBatch:
    arrays = [
        pc.take(column, order, boundscheck=False, memory_pool=_POOL) for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
