"""The splits of a change feed, read one by one, return the rows of the whole feed."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lazydelta import Config, Table
from lazydelta.changes import RequestedRange
from lazydelta.errors import ChangeFeedDisabledError, ColumnNotFoundError
from lazydelta.spark.changes import ChangesRead
from lazydelta.spark.serialized_snapshot import TableLocation
from tests.unit.changes.support import FeedTable


def ids(first, count=3):
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


@pytest.fixture
def table(tmp_path):
    """A table with inserts, deletes, an update with a change file, a deletion vector, and big commits."""
    made = FeedTable(tmp_path, schema={"id": "long", "day": "date"}, partition_by=["day"])
    day = {"values": {"day": "2026-01-01"}}
    wordy = {"tags": {"note": "x" * 400}}
    made.commit(*(made.add(f"f{n:03d}", ids(10 * n), **day, **wordy) for n in range(150)))
    made.commit(made.remove("f003", **day), made.add("g", ids(5000), **day))
    made.commit(made.remove("f004", **day), made.add("f004", deleted=[1], **day))
    changed = ids(7000, 2).append_column("_change_type", pa.array(["insert", "delete"]))
    made.commit(made.cdc("c", changed, **day), made.remove("f005", **day))
    for number in range(70):
        made.commit(made.add(f"h{number}", ids(10_000 + 10 * number), **day))
    made.commit(*(made.remove(f"f{n:03d}") for n in range(20, 130)))
    return made


def find(directory, columns=None, where=None, **selection):
    address = TableLocation(root=str(directory), config=Config())
    predicate = None if where is None else Table.open(directory).changes(where=where).predicate
    return ChangesRead.find(address, RequestedRange(**selection), columns=columns, where=predicate)


def rows_of(read):
    found = []
    for part in read.plan():
        copy, mine = pickle.loads(pickle.dumps((read, part)))
        for batch in copy.read(mine):
            found += [tuple(map(str, row.values())) for row in batch.to_pylist()]
    return sorted(found)


@pytest.mark.parametrize(
    "selection",
    [
        pytest.param({}, id="all"),
        pytest.param({"starting_version": 1, "ending_version": 3}, id="some-versions"),
        pytest.param({"where": "_change_type = 'delete' AND id > 300"}, id="a-filter"),
        pytest.param(
            {"columns": ["_commit_version", "ID"], "starting_version": 2}, id="some-columns"
        ),
    ],
)
def test_splits_together_return_the_feed(table, selection):
    read = find(table.directory, **selection)
    feed = Table.open(table.directory).changes(**selection).to_arrow()
    assert feed.schema.names == read.schema.names
    expected = sorted(tuple(map(str, row.values())) for row in feed.to_pylist())
    assert expected
    assert rows_of(read) == expected


def test_large_commits_are_split_and_small_ones_combined(table):
    splits = [partition.split for partition in find(table.directory).plan()]
    of_first = [split for split in splits if split.first == 0]
    assert len(of_first) > 1
    assert {split.shares for split in of_first} == {len(of_first)}
    assert any(split.end - split.first > 10 for split in splits)
    covered = sorted((s.first, s.end) for s in splits if not s.share)
    assert [end for _, end in covered][:-1] == [first for first, _ in covered][1:]
    assert covered[-1][1] == table.log.version + 1


def test_a_range_without_commits_has_no_splits(table):
    read = find(table.directory, starting_version=999, allow_out_of_range=True)
    assert read.plan() == []


def test_an_invalid_request_is_refused_before_anything_is_read(table, tmp_path):
    with pytest.raises(ColumnNotFoundError, match="nowhere"):
        find(table.directory, columns=["nowhere"])
    plain = FeedTable(tmp_path / "off", configuration={"delta.enableChangeDataFeed": "false"})
    plain.commit(plain.add("a", ids(1)))
    with pytest.raises(ChangeFeedDisabledError):
        find(plain.directory)
