"""Expected rows of a table that two engines write in turn."""

from __future__ import annotations

import math
import operator
import shutil
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta import Table
from tests.round_trip.shapes import FURTHER, SHAPES, Row, Shape
from tests.unit.scan.read.test_generated import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(slots=True)
class TableModel:
    """One table, and the expected rows of each version."""

    shape: Shape
    table: Table
    path: str
    versions: dict[int, list[Row]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(FURTHER))

    @classmethod
    def written(cls, name: str, place: Path) -> TableModel:
        """Write the table of a shape and validate every commit."""
        shape = SHAPES[name]
        model = cls(shape, shape.create(str(place / name)), str(place / name))
        model.note([])
        for step in shape.steps:
            model.note(step(model.table, model.rows))
        return model

    def copied(self, place: Path) -> TableModel:
        """Return a copy of the table and its model, for a test that writes to it."""
        path = shutil.copytree(self.path, place / Path(self.path).name)
        return TableModel(self.shape, Table.open(path), str(path), dict(self.versions))

    @property
    def key(self) -> str:
        """The row number column: always the first."""
        return self.table.snapshot().schema.names[0]

    @property
    def rows(self) -> list[Row]:
        """The rows of the latest version."""
        return self.versions[max(self.versions)]

    def note(self, rows: list[Row]) -> None:
        """Record the expected rows of the latest version and validate our `.crc`."""
        version = self.table.version
        self.versions[version] = [self.shape.stored(row) for row in rows]
        self.check()

    def check(self) -> None:
        """Validate our `.crc` of the latest version against the log."""
        found = self.table.check()
        assert found.checksum is not None
        assert found.checksum.version == self.table.version, "the commit left no .crc"
        assert found.ok, found.to_dict()

    def append(self) -> None:
        """Append a row of ours."""
        given, new = self.next_rows(1)
        done = self.table.write(given, "append")
        assert not done.warnings, done.warnings
        self.note([*self.rows, *new])

    def next_rows(self, how_many: int = 3) -> tuple[pa.Table, list[Row]]:
        """Return new rows: as they are written, and as they are read.

        A column that the other engine has added is null in them.
        """
        numbers = [next(self.numbers) for _ in range(how_many)]
        columns = dict.fromkeys(self.table.snapshot().schema.names)
        new = [columns | self.shape.stored(row) for row in self.shape.rows(*numbers)]
        return self.shape.given(self.table, new), new

    def other_wrote(self, rows: list[Row]) -> None:
        """Record the rows after a write of the other engine, and read them ourselves."""
        self.versions[self.table.version] = rows
        assert_rows(self.table.to_arrow(), rows)


def assert_rows(found: pa.Table, rows: list[Row]) -> None:
    """Compare rows with those of the model, in any order."""
    schema = pa.schema([_plain_field(part) for part in found.schema])
    expected = pa.Table.from_pylist(rows, schema=schema).to_pylist()
    if rows:
        assert set(found.schema.names) == set(rows[0])
    assert counted(found.to_pylist()) == counted(expected)


def _plain_field(part: pa.Field) -> pa.Field:
    kind = part.type.value_type if pa.types.is_dictionary(part.type) else part.type
    return pa.field(part.name, kind)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one column that every engine and Python can evaluate."""

    column: str
    operator: str
    value: Any

    def holds(self, row: Row) -> bool:
        """Whether a row matches; null never does, as in SQL."""
        found = row[self.column]
        if self.operator == "is null":
            return found is None
        return found is not None and OPERATORS[self.operator](_ranked(found), _ranked(self.value))


def _ranked(value: Any) -> Any:
    """Return a sort key; NaN is larger than every number, as in SQL."""
    if not isinstance(value, float):
        return value
    return (True, 0.0) if math.isnan(value) else (False, value)


def conditions(rows: list[Row]) -> list[Condition]:
    """Return comparisons of every primitive column with its minimum, median and maximum."""
    found = []
    for column in rows[0]:
        ordered = sorted({row[column] for row in rows if _is_plain(row[column])})
        if not ordered:
            continue
        operators = {ordered[0]: ("<", "<="), ordered[len(ordered) // 2]: ("<", "=", ">")}
        operators[ordered[-1]] = (*operators.get(ordered[-1], ()), ">=", ">")
        found += [
            Condition(column, sign, value) for value in operators for sign in operators[value]
        ]
        found.append(Condition(column, "is null", None))
    return found


def _is_plain(value: Any) -> bool:
    is_number = isinstance(value, float) and not math.isnan(value)
    return is_number or isinstance(value, str | bool | int | Decimal | date | datetime)
