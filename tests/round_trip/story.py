"""A table of a shape as it is played between two engines, with the rows it must have."""

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
class Story:
    """One table, and the rows of each version as they were meant."""

    shape: Shape
    table: Table
    path: str
    versions: dict[int, list[Row]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(FURTHER))

    @classmethod
    def told(cls, name: str, place: Path) -> Story:
        """Write the table of a shape, step by step; every commit of ours must check out."""
        shape = SHAPES[name]
        story = cls(shape, shape.create(str(place / name)), str(place / name))
        story.note([])
        for step in shape.steps:
            story.note(step(story.table, story.rows))
        return story

    def copied(self, place: Path) -> Story:
        """Return a story of its own with the same past, for a test that goes on with it."""
        path = shutil.copytree(self.path, place / Path(self.path).name)
        return Story(self.shape, Table.open(path), str(path), dict(self.versions))

    @property
    def key(self) -> str:
        """The column that has the number of a row: always the first."""
        return self.table.snapshot().schema.names[0]

    @property
    def rows(self) -> list[Row]:
        """The rows of the newest version."""
        return self.versions[max(self.versions)]

    def note(self, rows: list[Row]) -> None:
        """Note the rows that the newest version must have, and see that our `.crc` agrees."""
        version = self.table.version
        self.versions[version] = [self.shape.stored(row) for row in rows]
        self.check()

    def check(self) -> None:
        """See that the newest version has a `.crc` of ours that agrees with the log."""
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
        """Return rows that nobody has written yet: as they are to be given, and as they are read.

        In a column that an engine added meanwhile they have null.
        """
        numbers = [next(self.numbers) for _ in range(how_many)]
        columns = dict.fromkeys(self.table.snapshot().schema.names)
        new = [columns | self.shape.stored(row) for row in self.shape.rows(*numbers)]
        return self.shape.given(self.table, new), new

    def other_wrote(self, rows: list[Row]) -> None:
        """Note what the other engine made of the table, and read it ourselves."""
        self.versions[self.table.version] = rows
        assert_rows(self.table.to_arrow(), rows)


def assert_rows(found: pa.Table, rows: list[Row]) -> None:
    """Compare rows that somebody read with those of the model, whatever their order."""
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
    """A comparison of one column, which every engine can be asked and Python can answer."""

    column: str
    operator: str
    value: Any

    def holds(self, row: Row) -> bool:
        """Whether a row satisfies it, as in SQL: of null nothing is true."""
        found = row[self.column]
        if self.operator == "is null":
            return found is None
        return found is not None and OPERATORS[self.operator](_ranked(found), _ranked(self.value))


def _ranked(value: Any) -> Any:
    """Return something that sorts as in SQL, where NaN is larger than every number."""
    if not isinstance(value, float):
        return value
    return (True, 0.0) if math.isnan(value) else (False, value)


def conditions(rows: list[Row]) -> list[Condition]:
    """Return comparisons of every plain column with its least, a middle and its greatest value."""
    found = []
    for column in rows[0]:
        ordered = sorted({row[column] for row in rows if _is_plain(row[column])})
        if not ordered:
            continue
        asked = {ordered[0]: ("<", "<="), ordered[len(ordered) // 2]: ("<", "=", ">")}
        asked[ordered[-1]] = (*asked.get(ordered[-1], ()), ">=", ">")
        found += [Condition(column, sign, value) for value in asked for sign in asked[value]]
        found.append(Condition(column, "is null", None))
    return found


def _is_plain(value: Any) -> bool:
    is_number = isinstance(value, float) and not math.isnan(value)
    return is_number or isinstance(value, str | bool | int | Decimal | date | datetime)
