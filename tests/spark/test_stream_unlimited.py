"""Streams as PySpark 4.1 runs them, without read limits: a batch is everything up to the latest."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from lazydelta import Table
from lazydelta.errors import ConfigError, StreamChangesError
from lazydelta.spark import stream_reader
from lazydelta.spark.arrow_conversion import read_schema
from lazydelta.spark.serialized_snapshot import SerializedSnapshot
from lazydelta.spark.source_options import SourceOptions
from tests.unit.changes.support import FeedTable

pytestmark = pytest.mark.spark4


def ids(first, count=2):
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


@pytest.fixture
def table(tmp_path):
    made = FeedTable(tmp_path)
    made.commit(made.add("a", ids(0)))
    made.commit(made.add("b", ids(2)))
    return made


def open_stream(table, **options):
    snapshot = Table.open(table.directory).snapshot()
    parsed = SourceOptions.parse({"path": str(table.directory)} | options)
    shipped = SerializedSnapshot.of(snapshot, None)
    return stream_reader._UnlimitedStream(parsed, shipped, read_schema(snapshot, None))


def rows(reader, start, end):
    found = []
    for part in reader.partitions(start, end):
        copy, mine = pickle.loads(cloudpickle.dumps((reader, part)))
        found += [row["id"] for batch in copy.read(mine) for row in batch.to_pylist()]
    return sorted(found)


def test_batches_follow_the_table_across_restarts(table):
    reader = open_stream(table)
    end = reader.latestOffset()
    table.commit(table.add("c", ids(4)))  # between the two calls
    start = reader.initialOffset()
    assert rows(reader, start, end) == [0, 1, 2, 3]
    newest = reader.latestOffset()
    assert rows(reader, end, newest) == [4, 5]
    assert reader.latestOffset() == newest, "nothing is new"
    table.commit(table.add("d", ids(6)))
    again = open_stream(table)  # its initialOffset is never called
    assert rows(again, newest, again.latestOffset()) == [6, 7]
    newest = again.latestOffset()
    table.commit(table.remove("a"))
    with pytest.raises(StreamChangesError, match="version 4"):
        again.partitions(newest, again.latestOffset())


def test_a_repeated_first_batch_has_the_same_rows(table):
    end = open_stream(table).latestOffset()
    for number in range(3):
        again = open_stream(table)
        assert rows(again, again.initialOffset(), end) == [0, 1, 2, 3]
        table.commit(table.add(f"c{number}", ids(10 * number)))


@pytest.mark.parametrize(("start", "first"), [("0", [0, 1, 2, 3]), ("1", [2, 3]), ("latest", [])])
def test_a_stream_may_start_at_a_version(table, start, first):
    reader = open_stream(table, startingVersion=start)
    end = reader.latestOffset()
    assert rows(reader, reader.initialOffset(), end) == first
    table.commit(table.add("c", ids(4)))
    again = open_stream(table, startingVersion=start)
    assert rows(again, again.initialOffset(), end) == first, "repeated"
    assert rows(again, end, again.latestOffset()) == [4, 5]


def test_limits_are_refused_where_they_are_not_supported(table, monkeypatch):
    monkeypatch.setattr(stream_reader, "admission", None)
    snapshot = Table.open(table.directory).snapshot()
    shipped = SerializedSnapshot.of(snapshot, None)
    limited = SourceOptions.parse({"path": str(table.directory), "maxFilesPerTrigger": "1"})
    with pytest.raises(ConfigError, match=r"requires PySpark 4\.2"):
        stream_reader.table_stream(limited, shipped, read_schema(snapshot, None))
