"""Looking at the predicate's columns first: only where it pays, and never at the cost of a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lazydelta.scan.probe import Probe
from lazydelta.scan.read import read_batches
from tests.rows.tables import Rows, field

FIELDS = [field("id", "long"), field("text", "string")]


class Bytes:
    """A file that only knows how large its columns are."""

    def __init__(self, **sizes):
        self.sizes = sizes

    def column_bytes(self, columns, groups):
        return sum(self.sizes[name] for name in columns) * len(groups)


class Columns:
    def __init__(self, filter_columns, columns):
        self.filter_columns, self.columns = filter_columns, columns


@pytest.mark.parametrize(
    ("sizes", "filtered", "worth"),
    [
        pytest.param({"id": 10, "text": 90}, ("id",), True, id="the-smaller-part"),
        pytest.param({"id": 90, "text": 10}, ("id",), False, id="the-larger-part"),
        pytest.param({"id": 10, "text": 90}, (), False, id="no-column-of-the-file"),
        pytest.param({"id": 10, "text": 90}, ("id", "text"), False, id="all-columns"),
    ],
)
def test_when_it_is_worth_it(sizes, filtered, worth):
    fit = Columns(filtered, tuple(sizes))
    assert Probe().is_worth_it(Bytes(**sizes), fit, [0]) is worth
    assert not Probe().is_worth_it(Bytes(**sizes), fit, [])


@pytest.mark.parametrize(("matching", "worth"), [(0, True), (4, True), (5, False), (8, False)])
def test_it_is_given_up_where_most_row_groups_match(matching, worth):
    probe, file, fit = Probe(), Bytes(id=1, text=99), Columns(("id",), ("id", "text"))
    probe._has_match = lambda file, fit, facts, group, rows: group < matching
    assert probe.with_matches(file, fit, None, range(8), batch_rows=1) == list(range(matching))
    assert probe.is_worth_it(file, fit, [0]) is worth


def test_rows_are_the_same_and_less_is_read(tmp_path, monkeypatch):
    """Bounds do not help: every row group holds the least and the greatest number."""
    made = Rows(tmp_path / "t", FIELDS)
    values = np.tile([0, 10**6], 500)
    values[777] = 5
    texts = [f"a text that takes some room {i}" for i in range(1000)]
    made.file("a.parquet", pa.table({"id": values, "text": texts}), row_group_size=100)
    read = []
    rows_of = made.open().scan("id = 5")

    from lazydelta.files import DataFile

    plain = DataFile.rows

    def noted(self, columns, groups, *, batch_rows):
        read.append((tuple(columns), list(groups)))
        return plain(self, columns, groups, batch_rows=batch_rows)

    monkeypatch.setattr(DataFile, "rows", noted)
    with read_batches(rows_of) as batches:
        assert [row for b in batches for row in b.to_pylist()] == [{"id": 5, "text": texts[777]}]
    assert read[-1] == (("id", "text"), [7])
