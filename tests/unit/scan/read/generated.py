"""Random tables with schema evolution: columns added, dropped and renamed at every depth.

A table has its current columns, and files in their original schemas; the expected rows follow from
the physical names alone. Written from the protocol, without the code under test.
"""

# ruff: noqa: DTZ001 - a timestamp_ntz has no zone

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.unit.scan.read.tables import Rows, inline

__all__ = ["Generated", "generated"]

DAY, TIME = date(1999, 12, 31), datetime(1999, 12, 31, tzinfo=UTC)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
MICROS = st.integers(-(10**15), 10**15).map(lambda n: TIME + timedelta(microseconds=n))
PRIMITIVES: dict[str, tuple[pa.DataType, Any]] = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "integer": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=4)),
    "date": (pa.date32(), st.integers(-40_000, 40_000).map(lambda n: DAY + timedelta(days=n))),
    "timestamp": (pa.timestamp("us", "UTC"), MICROS),
    "timestamp_ntz": (pa.timestamp("us"), MICROS.map(lambda t: t.replace(tzinfo=None))),
    "decimal(9,2)": (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    "decimal(18,4)": (pa.decimal128(18, 4), st.decimals(-(10**9), 10**9, places=4)),
    "decimal(38,10)": (pa.decimal128(38, 10), st.decimals(-(10**20), 10**20, places=10)),
}
SHAPES = ("plain", "struct", "list", "list-of-struct", "map-to-struct")
PARTITIONS = {
    "integer": st.integers(-5, 5).map(lambda n: (str(n), n)),
    "string": st.sampled_from(["a", "a b", "x=y/%2F", "é", "..", "__HIVE_DEFAULT_PARTITION__"]).map(
        lambda s: (s, s)
    ),
    "date": st.just(("2024-02-29", date(2024, 2, 29))),
    "boolean": st.booleans().map(lambda b: (str(b).lower(), b)),
    "decimal(9,2)": st.just(("-1.50", Decimal("-1.50"))),
    "timestamp_ntz": st.just(("2024-02-29 12:30:00.5", datetime(2024, 2, 29, 12, 30, 0, 500_000))),
}


@dataclass(frozen=True)
class Column:
    """A column or nested field: names, id and type; `parts` are the fields of a struct."""

    logical: str
    physical: str
    number: int
    shape: str = "plain"
    kind: str = "long"
    parts: tuple[Column, ...] = ()

    def delta(self, *, mapped: bool) -> dict[str, Any]:
        metadata = {}
        if mapped:
            metadata["delta.columnMapping.id"] = self.number
            metadata["delta.columnMapping.physicalName"] = self.physical
        kind = self._delta(mapped=mapped)
        return {"name": self.logical, "type": kind, "nullable": True, "metadata": metadata}

    def _delta(self, *, mapped: bool) -> Any:
        inner = {"type": "struct", "fields": [part.delta(mapped=mapped) for part in self.parts]}
        match self.shape:
            case "plain":
                return self.kind
            case "struct":
                return inner
            case "list":
                return {"type": "array", "elementType": self.kind, "containsNull": True}
            case "list-of-struct":
                return {"type": "array", "elementType": inner, "containsNull": True}
        values = {"valueType": inner, "valueContainsNull": True}
        return {"type": "map", "keyType": "string", **values}

    def arrow(self) -> pa.Field:
        """Return the Arrow field of a file, with its id."""
        inner = pa.struct([part.arrow() for part in self.parts])
        plain = PRIMITIVES[self.kind][0]
        kind = {
            "plain": plain,
            "struct": inner,
            "list": pa.list_(plain),
            "list-of-struct": pa.list_(inner),
            "map-to-struct": pa.map_(pa.string(), inner),
        }[self.shape]
        return pa.field(self.physical, kind, metadata={"PARQUET:field_id": str(self.number)})

    def values(self) -> st.SearchStrategy[Any]:
        """Draw values by physical name."""
        inner = st.fixed_dictionaries(
            {part.physical: st.none() | part.values() for part in self.parts}
        )
        plain = PRIMITIVES[self.kind][1]
        match self.shape:
            case "plain":
                return plain
            case "struct":
                return inner
            case "list":
                return st.lists(st.none() | plain, max_size=3)
            case "list-of-struct":
                return st.lists(st.none() | inner, max_size=3)
        keys = st.dictionaries(st.sampled_from("abc"), st.none() | inner, max_size=2)
        return keys.map(lambda found: list(found.items()))

    def shown(self, value: Any) -> Any:
        """Return a stored value in the current schema."""
        if value is None or self.shape in ("plain", "list"):
            return value
        if self.shape == "struct":
            return {p.logical: p.shown(value.get(p.physical)) for p in self.parts}
        one = replace(self, shape="struct")
        if self.shape == "list-of-struct":
            return [one.shown(item) for item in value]
        return [(key, one.shown(item)) for key, item in value]


@dataclass
class Generated:
    """A table: column mapping mode, current columns and files."""

    mode: str
    columns: list[Column]
    partition: tuple[str, str] | None  # physical name and kind
    files: list[dict[str, Any]] = field(default_factory=list)

    def build(self, path) -> Rows:
        """Write the table."""
        mapped = self.mode != "none"
        configuration = {"delta.columnMapping.mode": self.mode} if mapped else {}
        fields = [column.delta(mapped=mapped) for column in self.columns]
        partitions = [c.logical for c in self.columns if self._is_partition(c)]
        made = Rows(
            path, fields, partition_columns=partitions, configuration=configuration,
            features=("deletionVectors", "timestampNtz"),
        )  # fmt: skip
        for at, file in enumerate(self.files):
            data = pa.Table.from_pylist(file["rows"], schema=pa.schema(file["schema"]))
            partition = {} if self.partition is None else {self.partition[0]: file["partition"][0]}
            vector = inline(sorted(file["deleted"])) if file["deleted"] else None
            made.file(
                f"part {at}%é.parquet", data, partition=partition, vector=vector,
                action={"path": f"part%20{at}%25%C3%A9.parquet"}, row_group_size=2,
            )  # fmt: skip
        return made

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows in the current schema."""
        found = []
        for file in self.files:
            for at, stored in enumerate(file["rows"]):
                if at not in file["deleted"]:
                    found.append({c.logical: self._value(c, file, stored) for c in self.columns})
        return found

    def _value(self, column: Column, file: dict[str, Any], stored: dict[str, Any]) -> Any:
        if self._is_partition(column):
            return file["partition"][1]
        return column.shown(stored.get(column.physical))

    def _is_partition(self, column: Column) -> bool:
        return self.partition is not None and column.physical == self.partition[0]


@st.composite
def generated(draw: st.DrawFn, modes: tuple[str, ...] = ("none", "name", "id")) -> Generated:
    """Draw a table."""
    mode = draw(st.sampled_from(modes))
    numbers = itertools.count(1)
    table = Generated(mode, [], None)
    if draw(st.booleans()):
        kind = draw(st.sampled_from(sorted(PARTITIONS)))
        column = _column(draw, numbers, mode, shape="plain")
        table.columns.append(replace(column, kind=kind))
        table.partition = (column.physical, kind)
    table.columns.append(_column(draw, numbers, mode))
    for _ in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(0, 3))):
            _evolve(draw, table, numbers)
        table.files.append(_file(draw, table))
    return table


def _column(draw: st.DrawFn, numbers: Any, mode: str, shape: str | None = None) -> Column:
    number = next(numbers)
    shape = draw(st.sampled_from(SHAPES)) if shape is None else shape
    parts: tuple[Column, ...] = ()
    if shape.endswith("struct"):
        count = draw(st.integers(1, 2))
        parts = tuple(_column(draw, numbers, mode, "plain") for _ in range(count))
    kind = draw(st.sampled_from(sorted(PRIMITIVES)))
    physical = f"c{number}" if mode == "none" else f"col-{number}"
    return Column(f"c{number}", physical, number, shape, kind, parts)


def _evolve(draw: st.DrawFn, table: Generated, numbers: Any) -> None:
    """Add a column or a nested field; with column mapping, also rename or drop one."""
    hows = ["add", "grow"] if table.mode == "none" else ["add", "grow", "rename", "drop"]
    how = draw(st.sampled_from(hows))
    at = draw(st.integers(0, len(table.columns) - 1))
    column = table.columns[at]
    if how == "add":
        table.columns.append(_column(draw, numbers, table.mode))
    elif how == "grow" and column.parts:
        more = _column(draw, numbers, table.mode, "plain")
        table.columns[at] = replace(column, parts=(more, *column.parts))
    elif how == "rename":
        renamed = replace(column, logical=f"new name {next(numbers)}")
        if column.parts:
            first = replace(column.parts[0], logical=f"new.part {next(numbers)}")
            renamed = replace(renamed, parts=(first, *column.parts[1:]))
        table.columns[at] = renamed
    elif how == "drop" and at > 1:
        del table.columns[at]


def _file(draw: st.DrawFn, table: Generated) -> dict[str, Any]:
    written = [c for c in table.columns if not table._is_partition(c)]
    order = draw(st.permutations(written))
    rows = [
        {c.physical: draw(st.none() | c.values()) for c in order}
        for _ in range(draw(st.integers(1, 5)))
    ]
    value = (None, None)
    if table.partition is not None:
        value = draw(st.just((None, None)) | PARTITIONS[table.partition[1]])
    return {
        "schema": [column.arrow() for column in order],
        "rows": rows,
        "partition": value,
        "deleted": draw(st.sets(st.integers(0, len(rows) - 1))),
    }
