"""Looking at the predicate's columns first: only where it pays, and never at the cost of a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lazydelta import ReadOptions
from lazydelta.files import DataFile
from lazydelta.files import Rows as FileRows
from lazydelta.scan.probe import Probe
from tests.rows.tables import Rows, field, inline

FIELDS = [field("id", "long"), field("text", "string"), field("kind", "string")]
TEXT = "a text that takes some room"


class Bytes:
    """A file that only knows how large its columns are."""

    def __init__(self, **sizes):
        self.sizes = sizes

    def column_bytes(self, columns, groups):
        return sum(self.sizes[name] for name in columns) * len(groups)


class Columns:
    def __init__(self, filter_columns, columns):
        self.filter_columns, self.columns = filter_columns, columns
        self.other_columns = tuple(set(columns) - set(filter_columns))


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


class Groups(Bytes):
    """Row groups of one row each, which holds the row group's number."""

    class metadata:  # noqa: N801 - named as the file's own attribute
        @staticmethod
        def row_group(_):
            return type("Group", (), {"num_rows": 1})

    def rows(self, columns, groups, *, batch_rows):
        (group,) = groups
        array = pa.array([group])
        yield FileRows(group, 1, pa.RecordBatch.from_arrays([array] * len(columns), list(columns)))


@pytest.mark.parametrize(("matching", "worth"), [(0, True), (4, True), (5, False), (8, False)])
def test_it_is_given_up_where_most_row_groups_match(matching, worth):
    probe, file, fit = Probe(), Groups(id=1, text=99), Columns(("id",), ("id", "text"))

    def wanted(rows):
        return pa.array([rows.start < matching])

    found = probe.rows(file, fit, range(8), wanted, batch_rows=1)
    assert [rows.start for rows, _ in found] == list(range(matching))
    assert probe.is_worth_it(file, fit, [0]) is worth


@pytest.fixture
def read(monkeypatch):
    """What was decoded: columns, row groups, and the rows of each batch."""
    calls, plain = [], DataFile.rows

    def noted(self, columns, groups, *, batch_rows):
        decoded = []
        calls.append((tuple(columns), list(groups), decoded))
        for rows in plain(self, columns, groups, batch_rows=batch_rows):
            decoded.append(rows.length)
            yield rows

    monkeypatch.setattr(DataFile, "rows", noted)
    return calls


def test_a_row_group_without_a_match_costs_the_predicates_columns_alone(tmp_path, read):
    """Bounds do not help: every row group holds the least and the greatest number."""
    made = Rows(tmp_path / "t", FIELDS[:2])
    values = np.tile([0, 10**6], 500)
    values[777] = 5
    texts = [f"{TEXT} {i}" for i in range(1000)]
    made.file("a.parquet", pa.table({"id": values, "text": texts}), row_group_size=100)
    found = made.open().scan("id = 5").to_arrow().to_pylist()
    assert found == [{"id": 5, "text": texts[777]}]
    assert [call[:2] for call in read if "text" in call[0]] == [(("text",), [7])]


@pytest.mark.parametrize(
    ("batch_rows", "decoded"),
    [
        pytest.param(1000, [31], id="in-one-batch-up-to-the-last-match"),
        pytest.param(20, [20, 20], id="in-batches-up-to-the-one-with-the-last-match"),
    ],
)
def test_nothing_is_decoded_after_the_last_match(tmp_path, read, batch_rows, decoded):
    made = Rows(tmp_path / "t", FIELDS[:2])
    table = pa.table({"id": np.arange(1000), "text": [f"{TEXT} {i}" for i in range(1000)]})
    made.file("a.parquet", table)
    scan = made.open().scan("id between 10 and 30")
    found = scan.to_arrow(ReadOptions(batch_rows=batch_rows))
    assert found.equals(table.slice(10, 21).cast(found.schema))
    others = [lengths for columns, _, lengths in read if columns == ("text",)]
    assert others == [decoded]


@pytest.mark.parametrize("batch_rows", [7, 64, 1000])
@pytest.mark.parametrize(
    "where",
    [
        pytest.param("id between 130 and 250", id="neighbours-over-row-groups"),
        pytest.param("id between 101 and 104", id="few-neighbours"),
        pytest.param("id in (3, 53, 171, 172, 403, 499)", id="scattered"),
        pytest.param("id < 30 or id > 480", id="both-ends"),
        pytest.param("id is null", id="nulls"),
        pytest.param("not (id > 5)", id="nulls-are-no-match"),
        pytest.param("kind = 'k3'", id="of-a-dictionary"),
        pytest.param("id > 100000", id="none"),
    ],
)
@pytest.mark.parametrize("deleted", [[], [0, 131, 140, 249], list(range(100, 300))])
def test_rows_are_those_of_a_plain_read(tmp_path, where, deleted, batch_rows):
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    ids = [None if i % 90 == 89 else i for i in range(500)]
    columns = {"id": ids, "text": [f"{TEXT} {i}" for i in range(500)]}
    table = pa.table(columns | {"kind": [f"k{i % 5}" for i in range(500)]})
    vector = inline(deleted) if deleted else None
    made.file("a.parquet", table, row_group_size=170, vector=vector)
    scan = made.open().scan(where)
    plain = scan.to_arrow(ReadOptions(enable_parquet_pushdown=False))
    assert scan.to_arrow(ReadOptions(batch_rows=batch_rows)).equals(plain)


def test_columns_that_come_in_smaller_pieces_stay_beside_their_rows(tmp_path, read):
    """Long texts of a dictionary are handed on fewer at a time than the numbers beside them."""
    made = Rows(tmp_path / "t", FIELDS)
    texts = [f"{TEXT} {i}" for i in range(2000)]
    kinds = [str(i % 4) * 1000 for i in range(2000)]
    made.file("a.parquet", pa.table({"id": np.arange(2000), "text": texts, "kind": kinds}))
    scan = made.open().scan("id between 50 and 1000")
    with scan.to_batches(ReadOptions(max_inflated_bytes=64_000)) as batches:
        found = list(batches)
    assert [(columns, max(lengths)) for columns, _, lengths in read] == [
        (("id",), 2000),
        (("text", "kind"), 64),
    ]
    rows = pa.Table.from_batches(found)
    assert rows["id"].to_pylist() == list(range(50, 1001))
    assert rows["text"].to_pylist() == texts[50:1001]
    assert rows["kind"].to_pylist() == kinds[50:1001]
