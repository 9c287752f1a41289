"""The data files of a synthetic table, as Arrow columns generated from file numbers.

File `i` always has the same name, size and statistics under one seed, in any order; so expected
results do not depend on the log. All strings have a fixed width and are assembled as byte
matrices: a million files take seconds. Knows nothing about the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.spec import DAYS, REGIONS, TableSpec

__all__ = [
    "FIRST_ID",
    "IDS_PER_FILE",
    "REAL_BYTES",
    "FileColumns",
    "Integers",
    "Template",
    "mix",
    "z85_strings",
]

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

FIRST_ID = 10_000_000_000  # eleven digits, like every id after it
IDS_PER_FILE = 10_000
"""File `i` has ids from `FIRST_ID + i * IDS_PER_FILE` on, less than this many."""

REAL_BYTES = 512 * 1024
"""The size of every data file that exists beside a `TableSpec`'s log."""

_MILLISECONDS_PER_DAY = 86_400_000
_FIRST_DAY = date(2026, 1, 1)
_FIRST_DAY_MS = (_FIRST_DAY - date(1970, 1, 1)).days * _MILLISECONDS_PER_DAY
_ISO_DAYS: Bytes = np.array(
    [list((_FIRST_DAY + timedelta(days=d)).isoformat().encode()) for d in range(DAYS)], np.uint8
)
_FOUR_DIGITS: Bytes = np.array([list(b"%04d" % n) for n in range(10_000)], np.uint8)
_HEX: Bytes = np.array([list(b"%02x" % n) for n in range(256)], np.uint8)
_Z85: Bytes = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    np.uint8,
)
_SLOT = re.compile(r"<(\w+):(\d+)>")


def mix(numbers: Integers, salt: int) -> npt.NDArray[np.uint64]:
    """Return 64 well-mixed bits for each number (splitmix64), depending on the salt."""
    start = (salt * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64
    bits = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def text_array(matrix: Bytes) -> pa.Array:
    """Return the rows of a byte matrix as strings."""
    rows, width = matrix.shape
    offsets = (np.arange(rows + 1) * width).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    )


def z85_strings(words: npt.NDArray[np.uint32]) -> pa.Array:
    """Return the rows of a matrix of 32-bit words in Z85, five characters a word."""
    places = 85 ** np.arange(4, -1, -1)
    characters = _Z85[words.astype(np.int64)[:, :, None] // places % 85]
    return text_array(characters.reshape(len(words), 5 * words.shape[1]))


def digits(numbers: npt.NDArray[np.integer], width: int) -> Bytes:
    """Return the decimal digits of each number, filled with zeros on the left to `width`."""
    groups = []
    for _ in range(-(-width // 4)):
        groups.append(_FOUR_DIGITS[numbers % 10_000])
        numbers = numbers // 10_000
    return np.concatenate(groups[::-1], axis=1)[:, -width:]


class Template:
    """A string with slots (`<name:width>`) that is filled for many rows at once.

    >>> Template("a=<a:3>;").render(a=np.array([1, 22])).to_pylist()
    ['a=001;', 'a=022;']
    """

    def __init__(self, text: str) -> None:
        self._slots: list[tuple[str, int, int]] = []
        blank = b""
        end = 0
        for slot in _SLOT.finditer(text):
            blank += text[end : slot.start()].encode()
            name, width = slot[1], int(slot[2])
            self._slots.append((name, len(blank), len(blank) + width))
            blank += b"0" * width
            end = slot.end()
        self._blank: Bytes = np.frombuffer(blank + text[end:].encode(), np.uint8)

    def render(self, **values: Integers | Bytes) -> pa.Array:
        """Return one string per row; a value is a column of numbers or a matrix of characters."""
        rows = len(next(iter(values.values())))
        matrix: Bytes = np.repeat(self._blank[None, :], rows, axis=0)
        for name, start, end in self._slots:
            value = values[name]
            is_text = value.ndim == 2
            matrix[:, start:end] = value if is_text else digits(value, end - start)
        return text_array(matrix)


_NAME = "part-<part:5>-<u1:8>-<u2:4>-<u3:4>-<u4:4>-<u5:12>-c000.snappy.parquet"
_PATHS = [Template(f"{folders}{_NAME}") for folders in ("", "date=<day:10>/")]
_PATHS.append(Template(f"date=<day:10>/region=region-<region:2>/{_NAME}"))
_REGION = Template("region-<region:2>")


def _bounds(end: str) -> str:
    return (
        f'{{"id":<id_{end}:11>,"value":<whole_{end}:3>.<milli_{end}:3>,'
        f'"name":"name-<name_{end}:9>",'
        f'"ts":"<day:10>T<h_{end}:2>:<m_{end}:2>:<s_{end}:2>.<ms_{end}:3>Z","qty":<qty_{end}:2>}}'
    )


_STATS = (
    f'{{"numRecords":<records:4>,"minValues":{_bounds("lo")},"maxValues":{_bounds("hi")},'
    '"nullCount":{"id":0,"value":<null_value:1>,"name":<null_name:1>,"ts":0,"qty":<null_qty:1>}'
)
_TIGHT = Template(_STATS + "}")
_WIDE = Template(_STATS + ',"tightBounds":false}')


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of the files with these numbers."""

    spec: TableSpec
    index: Integers

    def _draw(self, salt: int, low: int, high: int) -> Integers:
        bits = mix(self.index, self.spec.seed * 1000 + salt)
        return (low + (bits >> np.uint64(11)) % np.uint64(high - low)).astype(np.int64)

    @property
    def day(self) -> Integers:
        """The date of each file as a number from 0; ascending for those of the checkpoint."""
        in_order = self.index * DAYS // self.spec.files
        return np.where(self.index < self.spec.files, in_order, self._draw(0, 0, DAYS))

    @property
    def region(self) -> Integers:
        """The region of each file as a number from 0."""
        return self._draw(7, 0, REGIONS)

    @property
    def size(self) -> Integers:
        """Bytes of each file."""
        drawn = self._draw(1, 30_000_000, 130_000_000)
        return np.where(self.index < self.spec.first_real, drawn, REAL_BYTES)

    @property
    def modified(self) -> Integers:
        """Modification time of each file, in milliseconds since the epoch."""
        return _FIRST_DAY_MS + self.day * _MILLISECONDS_PER_DAY + self._draw(2, 0, 86_400_000)

    @property
    def has_vector(self) -> npt.NDArray[np.bool_]:
        """Which files have a deletion vector in their first add."""
        third = self._draw(3, 0, 3) == 0
        return third if self.spec.deletion_vectors else np.zeros_like(third)

    @property
    def path(self) -> pa.Array:
        """Names as Spark writes them, in a directory per partition."""
        high, low = (mix(self.index, self.spec.seed * 1000 + salt) for salt in (4, 5))
        raw = np.stack([high, low], axis=1).view(np.uint8)
        raw[:, 6] = raw[:, 6] & 0x0F | 0x40  # the version and variant that a random UUID has
        raw[:, 8] = raw[:, 8] & 0x3F | 0x80
        text = _HEX[raw].reshape(len(raw), 32)
        cuts = {"u1": (0, 8), "u2": (8, 12), "u3": (12, 16), "u4": (16, 20), "u5": (20, 32)}
        uuid = {name: text[:, start:end] for name, (start, end) in cuts.items()}
        folders = {"day": _ISO_DAYS[self.day], "region": self.region}
        template = _PATHS[self.spec.partition_levels]
        return template.render(part=self.index % 200, **folders, **uuid)

    @property
    def day_text(self) -> pa.Array:
        """The date as a partition value of the log."""
        return text_array(_ISO_DAYS[self.day])

    @property
    def date(self) -> pa.Array:
        """The date of each file."""
        days = (self.day + _FIRST_DAY_MS // _MILLISECONDS_PER_DAY).astype(np.int32)
        return pa.array(days).cast(pa.date32())

    def partition_text(self) -> list[pa.Array]:
        """The partition values as strings, a column for each."""
        columns = [self.day_text, _REGION.render(region=self.region)]
        return columns[: self.spec.partition_levels]

    def vector_text(self, salt: int) -> pa.Array:
        """The id of a vector: twenty characters that encode sixteen bytes."""
        bits = np.stack([mix(self.index, salt), mix(self.index, salt + 1)], axis=1)
        return z85_strings(bits.view(np.uint32))

    def bounds(self, end: str) -> dict[str, Integers]:
        """The minimum or maximum (`lo`, `hi`) of each column, as integers."""
        high = end == "hi"
        salt = 30 if high else 20
        half = {False: (0, 1), True: (1, 2)}[high]
        first = FIRST_ID + self.index * IDS_PER_FILE
        return {
            "id": first + (self.records - 1 if high else 0),
            "value": self._draw(salt, 100_000 + 450_000 * half[0], 100_000 + 450_000 * half[1]),
            "name": self._draw(salt + 1, 500_000_000 * half[0], 500_000_000 * half[1]),
            "ts": self._draw(salt + 2, 43_200_000 * half[0], 43_200_000 * half[1]),
            "qty": self._draw(salt + 3, 10 + 45 * half[0], 10 + 45 * half[1]),
        }

    @property
    def records(self) -> Integers:
        """Rows of each file."""
        return self._draw(6, 1000, IDS_PER_FILE)

    @property
    def null_counts(self) -> dict[str, Integers]:
        """Nulls of each column."""
        none = np.zeros_like(self.index)
        some = {name: self._draw(40 + n, 0, 10) for n, name in enumerate(("value", "name", "qty"))}
        return {"id": none, "value": some["value"], "name": some["name"], "ts": none} | {
            "qty": some["qty"]
        }

    def stats_json(self, *, tight: bool) -> pa.Array:
        """The statistics as JSON strings; `tight` is false for files with a vector."""
        slots: dict[str, Integers | Bytes] = {"records": self.records, "day": _ISO_DAYS[self.day]}
        for end in ("lo", "hi"):
            bound = self.bounds(end)
            slots |= {f"{name}_{end}": bound[name] for name in ("id", "name", "qty")}
            slots |= {f"whole_{end}": bound["value"] // 1000, f"milli_{end}": bound["value"] % 1000}
            slots |= {f"h_{end}": bound["ts"] // 3_600_000, f"ms_{end}": bound["ts"] % 1000}
            slots |= {f"m_{end}": bound["ts"] // 60_000 % 60, f"s_{end}": bound["ts"] // 1000 % 60}
        slots |= {f"null_{name}": count for name, count in self.null_counts.items()}
        return (_TIGHT if tight else _WIDE).render(**slots)

    def stats_parsed(self, tight: pa.Array | None) -> pa.Array:
        """The same statistics as a struct; `tight` is the column `tightBounds`, if there is one."""
        parts: dict[str, pa.Array] = {"numRecords": pa.array(self.records)}
        for field, end in (("minValues", "lo"), ("maxValues", "hi")):
            bound = self.bounds(end)
            start_us = (_FIRST_DAY_MS + self.day * _MILLISECONDS_PER_DAY + bound["ts"]) * 1000
            parts[field] = _struct(
                id=pa.array(bound["id"]),
                value=pa.array(bound["value"] / 1000),
                name=Template("name-<n:9>").render(n=bound["name"]),
                ts=pa.array(start_us).cast(pa.timestamp("us", "UTC")),
                qty=pa.array(bound["qty"].astype(np.int32)),
            )
        parts["nullCount"] = _struct(**{k: pa.array(v) for k, v in self.null_counts.items()})
        return _struct(**parts, **({} if tight is None else {"tightBounds": tight}))

    def partition_parsed(self) -> pa.Array:
        """The partition values as a struct."""
        columns = [self.date, *self.partition_text()[1:]]
        return pa.StructArray.from_arrays(columns, names=self.spec.partition_columns)


def _struct(**columns: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
