"""Batches of a stream without Spark: their offsets, and that every row arrives exactly once."""

from __future__ import annotations

import json
import pickle
import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import (
    ConfigError,
    StreamChangesError,
    StreamSchemaError,
    TimestampNotFoundError,
    VersionCleanedUpError,
    VersionNotCommittedError,
)
from lazydelta.spark import stream_batches, stream_log
from lazydelta.spark.source import LazyDeltaSource
from lazydelta.spark.stream_offsets import Offset
from lazydelta.testing.table_builder import FIRST_COMMIT_MS
from tests.unit.changes.support import FeedTable

pytestmark = pytest.mark.spark4

limits = pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="batches have limits from PySpark 4.2 on"
)

ALL = limits.ReadAllAvailable()
LIMITED = limits.ReadMaxFiles(1)  # the options decide


class Query:
    """Drives a stream as Spark does: requests offsets, stores them, reads the rows between them."""

    def __init__(self, directory, **options):
        strings = {name: str(value) for name, value in options.items()}
        self.options = {"path": str(directory)} | strings
        self.rows = []
        self.batches = 0
        self.start = None
        self.open()

    def open(self):
        """Start, or restart, without any state of an earlier process."""
        source = LazyDeltaSource(self.options)
        self.reader = source.streamReader(source.schema())

    def next_end(self, limit=LIMITED):
        if self.start is None:
            self.start = self.reader.initialOffset()
        end = self.reader.latestOffset(self.start, limit)
        return json.loads(json.dumps(end))

    def read(self, end):
        found = []
        for part in self.reader.partitions(self.start, end):
            copy, mine = pickle.loads(pickle.dumps((self.reader._reads, part)))
            for batch in copy.read(mine):
                found += [tuple(row.values()) for row in batch.to_pylist()]
        return sorted(found)

    def step(self, limit=LIMITED):
        """Run one batch; return its rows, None if there is nothing new."""
        end = self.next_end(limit)
        if end == self.start:
            return None
        rows = self.read(end)
        self.start = end
        self.rows += rows
        self.batches += 1
        return rows

    def drain(self, limit=LIMITED):
        while self.step(limit) is not None:
            pass
        return sorted(self.rows)


def ids(count, first=0):
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


def numbers(*spans):
    return [(n,) for span in spans for n in span]


@pytest.fixture
def table(tmp_path):
    """Three commits: two files, one file, two files; ten rows in each file."""
    made = FeedTable(tmp_path)
    made.commit(made.add("a", ids(10)), made.add("b", ids(10, 10)))
    made.commit(made.add("c", ids(10, 20)))
    made.commit(made.add("d", ids(10, 30)), made.add("e", ids(10, 40)))
    return made


def test_a_stream_starts_with_the_table_and_continues_with_its_commits(table):
    query = Query(table.directory)
    assert query.drain() == numbers(range(50))
    assert query.step() is None
    table.commit(table.add("f", ids(5, 50)))
    assert query.step() == numbers(range(50, 55))
    assert query.start["version"] == 4
    assert query.start["index"] == 0


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({"maxFilesPerTrigger": 2}, 3),
        ({"maxFilesPerTrigger": 1}, 5),
        ({"maxFilesPerTrigger": 5}, 1),
        ({"maxBytesPerTrigger": 1}, 5),
        ({"maxBytesPerTrigger": "1m"}, 1),
        ({"startingVersion": 0, "maxFilesPerTrigger": 3}, 2),
        ({"startingVersion": 0, "maxFilesPerTrigger": 2, "maxBytesPerTrigger": 1}, 5),
    ],
)
def test_a_batch_respects_its_limit_and_has_at_least_one_file(table, options, batches):
    query = Query(table.directory, **options)
    assert query.drain() == numbers(range(50))
    assert query.batches == batches


def test_all_available_means_all(table):
    query = Query(table.directory, maxFilesPerTrigger=1)
    assert query.step(ALL) == numbers(range(50))
    assert query.step(ALL) is None


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ({"startingVersion": 1}, 20),
        ({"startingVersion": 2}, 30),
        ({"startingVersion": "latest"}, 50),
    ],
)
def test_a_stream_may_start_at_a_version(table, start, first):
    query = Query(table.directory, **start)
    query.drain()  # what is there
    table.commit(table.add("f", ids(5, 50)))
    assert query.drain() == numbers(range(first, 55))


def test_a_stream_may_start_at_a_timestamp(tmp_path):
    table = FeedTable(tmp_path)
    for number in range(3):
        at = FIRST_COMMIT_MS + number * 60_000
        table.commit(table.add(f"f{number}", ids(1, number)), at_ms=at)
    timestamp = datetime.fromtimestamp((FIRST_COMMIT_MS + 30_000) / 1000, UTC).isoformat()
    assert Query(tmp_path, startingTimestamp=timestamp).drain() == [(1,), (2,)]
    assert Query(tmp_path, startingTimestamp="2001-01-01").drain() == [(0,), (1,), (2,)]
    with pytest.raises(TimestampNotFoundError):
        Query(tmp_path, startingTimestamp="2101-01-01").step()


def test_a_batch_of_a_long_list_holds_only_its_own_files(table, monkeypatch):
    monkeypatch.setattr(stream_batches, "_ROWS_BETWEEN_CUTS", 0)
    table.log.checkpoint(row_group_rows=1)
    query = Query(table.directory, maxFilesPerTrigger=2)
    query.step()
    assert query.start["index"] == 2
    assert query.drain() == numbers(range(50))
    assert query.batches == 3


def test_input_partitions_need_no_second_look_at_the_log(table, monkeypatch):
    query = Query(table.directory)
    query.drain()
    table.commit(table.add("f", ids(5, 50)))
    end = query.next_end()
    for name in ("list_log", "read_commits"):
        monkeypatch.setattr(stream_log, name, pytest.fail)
    parts = query.reader.partitions(query.start, end)
    monkeypatch.undo()
    assert len(parts) == 1
    assert query.step() == numbers(range(50, 55))


def test_files_are_cut_as_they_come():
    def batch(*files):
        paths, times = zip(*files, strict=True)
        columns = {"path": pa.array(paths), "modificationTime": pa.array(times)}
        return pa.RecordBatch.from_pydict(columns | {"size": pa.array([10] * len(files))})

    batches = [batch(("b", 1), ("z", 9)), batch(("y", 8)), batch(("a", 1), ("c", 0))]
    for between in (0, 10):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stream_batches, "_ROWS_BETWEEN_CUTS", between)
            for budget, taken, is_all in (
                (stream_batches.Budget(files=3), ["c", "a", "b"], False),
                (stream_batches.Budget(bytes=25), ["c", "a"], False),
                (stream_batches.Budget(files=5), ["c", "a", "b", "y", "z"], True),
            ):
                found = stream_batches._first_files(batches, budget)
                assert (found[0].column("path").to_pylist(), found[1]) == (taken, is_all)


@pytest.mark.parametrize("seed", range(12))
def test_every_row_arrives_once_after_any_failure(tmp_path, seed):
    """Batches fail before or after they are read, amid commits, checkpoints and restarts."""
    chance = random.Random(seed)
    table = FeedTable(tmp_path)
    total, files = 0, 0

    def commit():
        nonlocal total, files
        adds = []
        for _ in range(chance.randint(0, 3)):
            rows = chance.randint(1, 4)
            time = chance.randint(0, 3)
            adds.append(table.add(f"f{files}", ids(rows, total), modificationTime=time))
            total, files = total + rows, files + 1
        table.commit(*adds)

    for _ in range(3):
        commit()
    options = chance.choice([{}, {"startingVersion": 0}])
    query = Query(tmp_path, maxFilesPerTrigger=chance.randint(1, 4), **options)
    for _ in range(12):
        event = chance.random()
        if event < 0.3:
            commit()
        if event > 0.8:
            table.log.checkpoint()
        end = query.next_end()
        if chance.random() < 0.4:  # the batch fails: Spark stored its end offset, and restarts
            query.read(end)
            query.open()
            if query.batches == 0:
                commit()
                query.start = (
                    query.reader.initialOffset()
                )  # Spark does not store the start of the first batch
        if end != query.start:
            query.rows += query.read(end)
            query.start, query.batches = end, query.batches + 1
    assert query.drain() == numbers(range(total))


def test_a_repeated_first_batch_has_the_same_rows_after_new_commits(table):
    for options in ({}, {"startingVersion": "latest"}):
        query = Query(table.directory, **options)
        query.start = query.reader.initialOffset()
        version = table.log.version + 1
        table.commit(table.add(f"more{version}", ids(1, 100 + version)))
        end = query.next_end()
        once = query.read(end)
        table.commit(table.add(f"again{version}", ids(1, 200 + version)))
        query.open()
        query.start = query.reader.initialOffset()
        assert query.read(end) == once
        assert once


def test_rewrites_without_data_change_return_nothing(table):
    query = Query(table.directory)
    query.drain()
    quiet = {"dataChange": False}
    table.commit(
        table.remove("a", **quiet), table.remove("b", **quiet), table.add("ab", ids(20), **quiet)
    )
    assert query.step() == []
    assert query.step() is None


# --- commits other than appends


def delete(table):
    table.commit(table.remove("a"))


def update(table):
    table.commit(table.remove("c"), table.add("c2", ids(10, 20)), table.add("n", ids(1, 90)))


def delete_by_vector(table):
    table.commit(table.remove("a"), table.add("a", deleted=[3]))


def update_with_change_file(table):
    changed = {"id": pa.array([20], pa.int64()), "_change_type": pa.array(["delete"])}
    table.commit(
        table.remove("c"), table.add("c2", ids(9, 21)), table.cdc("x.parquet", pa.table(changed))
    )


@pytest.mark.parametrize(
    ("change", "updates"),
    [(delete, False), (update, True), (delete_by_vector, True), (update_with_change_file, True)],
)
def test_a_commit_that_is_no_append_stops_the_stream(table, change, updates):
    query = Query(table.directory)
    query.drain()
    change(table)
    with pytest.raises(StreamChangesError) as caught:
        query.step()
    assert caught.value.version == 3
    assert caught.value.updates is updates
    for option in (
        "skipChangeCommits",
        "readChangeFeed",
        "ignoreChanges" if updates else "ignoreD",
    ):
        assert option in str(caught.value)


@pytest.mark.parametrize(
    ("change", "option", "rows"),
    [
        (delete, "ignoreDeletes", []),
        (delete, "ignoreChanges", []),
        (delete, "skipChangeCommits", []),
        (update, "ignoreChanges", numbers(range(20, 30), [90])),
        (update, "skipChangeCommits", []),
        (delete_by_vector, "ignoreChanges", numbers([0, 1, 2], range(4, 10))),
        (update_with_change_file, "ignoreChanges", numbers(range(21, 30))),
        (update_with_change_file, "skipChangeCommits", []),
    ],
)
def test_an_option_selects_how_it_is_handled(table, change, option, rows):
    query = Query(table.directory, **{option: "true"})
    query.drain()
    change(table)
    assert query.step() == rows


def test_ignoring_deletes_does_not_ignore_updates(table):
    query = Query(table.directory, ignoreDeletes="true")
    query.drain()
    update(table)
    with pytest.raises(StreamChangesError, match="version 3"):
        query.step()


# --- schemas


def test_a_new_column_stops_the_stream_and_a_restart_reads_it(table):
    query = Query(table.directory)
    query.drain()
    wider = {"id": "long", "name": "string"}
    named = pa.table({"id": pa.array([50], pa.int64()), "name": ["x"]})
    table.commit(table.metadata(schema=wider), table.add("f", named))
    with pytest.raises(
        StreamSchemaError, match=r"version 3 .*'name' was dropped.*Restart the stream"
    ):
        query.step()
    query.open()
    assert query.step() == [(50, "x")]


def test_a_renamed_column_needs_a_new_stream(table):
    query = Query(table.directory, startingVersion=0, maxFilesPerTrigger=1)
    query.step()
    table.commit(table.metadata(schema={"other": "long"}))
    query.open()
    with pytest.raises(StreamSchemaError, match="version 0"):
        query.read(query.next_end())


def test_another_table_at_the_same_address_is_noticed(table):
    query = Query(table.directory)
    query.step()
    query.start["table"] = "11111111-0000-0000-0000-000000000000"
    with pytest.raises(StreamSchemaError, match=r"its id changed|table ids differ"):
        query.step()


# --- refused starts and offsets


def test_a_version_that_is_not_there_is_refused(table):
    with pytest.raises(VersionNotCommittedError, match="version 9"):
        Query(table.directory, startingVersion=9).step()


def test_log_cleanup_that_overtook_the_stream_is_an_error(table):
    query = Query(table.directory, startingVersion=0, maxFilesPerTrigger=1)
    query.step()
    table.log.checkpoint().clean_up(2)
    with pytest.raises(VersionCleanedUpError):
        query.step()


def test_a_foreign_checkpoint_is_refused(table):
    query = Query(table.directory)
    query.start = {"sourceVersion": 1, "reservoirVersion": 3}
    with pytest.raises(ConfigError, match="not an offset of lazydelta"):
        query.step()


def test_offsets_survive_the_checkpoint():
    first = Offset.first("t", 4, snapshot=True)
    for place in (first, first.within(3, (17, "a b%20c")), first.at(5, 2)):
        assert Offset.parse(json.loads(json.dumps(place.to_json()))) == place


def test_available_now_ends_where_the_table_ended(table):
    query = Query(table.directory, maxFilesPerTrigger=2)
    query.reader.prepareForTriggerAvailableNow()
    query.step()
    table.commit(table.add("f", ids(5, 50)))
    assert query.drain() == numbers(range(50))
    query.open()
    assert query.drain() == numbers(range(55))


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, limits.ReadMaxFiles(1000)),
        ({"maxFilesPerTrigger": 7}, limits.ReadMaxFiles(7)),
        ({"maxBytesPerTrigger": "1k"}, limits.ReadMaxBytes(1024)),
    ],
)
def test_the_default_read_limit(table, options, limit):
    assert Query(table.directory, **options).reader.getDefaultReadLimit() == limit


# --- change feeds


def test_a_stream_of_changes_returns_the_rows_of_the_feed(table):
    query = Query(table.directory, readChangeFeed="true", startingVersion=0, maxFilesPerTrigger=1)
    update(table)
    delete_by_vector(table)
    update_rows = query.drain()
    feed = Table.open(table.directory).changes(starting_version=0).to_arrow().to_pylist()
    expected = [(row["id"], row["_change_type"], row["_commit_version"]) for row in feed]
    assert sorted(row[:3] for row in update_rows) == sorted(expected)
    assert query.batches == 5, "a commit's changes stay together"
    table.commit(table.add("f", ids(1, 50)))
    (row,) = query.step()
    assert row[:3] == (50, "insert", 5)


def test_a_stream_of_changes_needs_a_start(table):
    with pytest.raises(ConfigError, match="startingVersion"):
        Query(table.directory, readChangeFeed="true").step()
