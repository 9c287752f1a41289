"""Random histories of alterations and appends, compared with a model in plain Python.

A column has a permanent number in the model, whatever its current name. A row keeps the values
written under that number, and shows them while the column exists.
"""

from __future__ import annotations

import tempfile
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazydelta import Table
from tests.unit.operations.alter.support import rows, same_rows

NAMES = ("a", "b", "c d", "e")
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "rename", "drop", "write", "write"]), st.integers(0, 99)),
    min_size=1,
    max_size=12,
)


class Model:
    """The expected table: names of columns by permanent number, and rows by these numbers."""

    def __init__(self, table):
        self.table = table
        self.fresh = count(1)
        self.columns = {0: "id"}
        self.rows = []
        self.shown_at = {}

    def pick(self, choice):
        """Return a column other than the first, which stays; None if there is none."""
        others = list(self.columns)[1:]
        return others[choice % len(others)] if others else None

    def free(self, choice):
        names = [name for name in NAMES if name not in self.columns.values()]
        return names[choice % len(names)] if names else None

    def add(self, choice):
        if (name := self.free(choice)) is not None:
            self.columns[next(self.fresh)] = name
            return self.table.alter.add_columns({f"`{name}`": "bigint"})
        return None

    def rename(self, choice):
        column, name = self.pick(choice), self.free(choice)
        if column is None or name is None:
            return None
        old, self.columns[column] = self.columns[column], name
        return self.table.alter.rename_column(f"`{old}`", name)

    def drop(self, choice):
        if (column := self.pick(choice)) is not None:
            return self.table.alter.drop_column(f"`{self.columns.pop(column)}`")
        return None

    def write(self, choice):
        row = {column: len(self.rows) * 100 + at for at, column in enumerate(self.columns)}
        if choice % 3 == 0 and len(row) > 1:
            row.popitem()  # a missing column
        self.rows.append(row)
        data = {self.columns[column]: pa.array([value]) for column, value in row.items()}
        return self.table.write(pa.table(data))

    def shown(self):
        found = [{n: row.get(c) for c, n in self.columns.items()} for row in self.rows]
        return sorted(found, key=repr)


def check(steps, *, mapped_later):
    with tempfile.TemporaryDirectory() as place:
        mapping = {"delta.columnMapping.mode": "name"}
        table = Table.create(place, "id long", properties={} if mapped_later else mapping)
        model = Model(table)
        if mapped_later:
            model.write(1)
            table.alter.set_properties(mapping)
        for verb, choice in steps:
            result = getattr(model, verb)(choice)
            if result is not None:
                model.shown_at[result.version] = model.shown()
        assert same_rows(place) == model.shown()
        for version, expected in model.shown_at.items():
            assert rows(place, version) == expected


@pytest.mark.parametrize("mapped_later", [False, True])
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_every_version_has_the_expected_rows(steps, mapped_later):
    check(steps, mapped_later=mapped_later)


@pytest.mark.long
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, mapped_later=st.booleans())
def test_every_version_has_the_expected_rows_in_many_histories(steps, mapped_later):
    check(steps, mapped_later=mapped_later)
