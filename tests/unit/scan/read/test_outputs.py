"""Stopped readers, and observer events of outputs."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest

import lazydelta
from lazydelta import Config, ReadOptions, Table
from lazydelta.errors import DataFileNotFoundError
from lazydelta.metrics import ReadFinished
from lazydelta.outputs import Outputs, metered
from tests.unit.changes.support import FeedTable

FILES, ROWS = 12, 500
STALLING = ReadOptions(batch_rows=10, memory_limit=0, files_at_once=3)


@pytest.fixture
def table(tmp_path):
    made = FeedTable(tmp_path)
    for at in range(FILES):
        made.commit(made.add(f"f{at}", {"id": list(range(at * ROWS, (at + 1) * ROWS))}))
    return made


@pytest.fixture(params=["rows", "changes"])
def kind(request):
    return request.param


@pytest.fixture
def events():
    return []


@pytest.fixture
def feed(table, kind, events):
    """Return a feed whose observer appends to `events`."""
    opened = Table.open(table.directory, config=Config(observer=events.append))
    return opened.scan() if kind == "rows" else opened.changes()


def working():
    """The threads of readers; those for store requests and of servers stay."""
    names = {t.name for t in threading.enumerate() if t.name.startswith("lazydelta-")}
    return sorted(names - {"lazydelta-requests", "lazydelta-flight"})


def finished(events):
    return [event for event in events if isinstance(event, ReadFinished)]


# --- stopping ---------------------------------------------------------------------------------------


def test_closing_a_stream_stops_its_threads(feed):
    batches = feed.to_batches(STALLING)
    next(batches)
    assert working()
    batches.close()
    assert not working()
    assert list(batches) == []


def test_a_dropped_reader_stops_its_threads(feed):
    reader = feed.to_reader(STALLING)
    reader.read_next_batch()
    assert working()
    del reader
    assert not working()


def test_an_exhausted_reader_has_no_threads(feed):
    reader = feed.to_reader(STALLING)
    assert reader.read_all().num_rows == FILES * ROWS
    assert not working()
    assert isinstance(reader, pa.RecordBatchReader)


def test_an_unread_reader_has_no_threads(feed):
    reader = feed.to_reader(STALLING)
    assert reader.schema.names[0] == "id"
    assert not working()


def test_pyarrow_does_not_propagate_close():
    """The docstring of `to_reader` depends on it: if this fails, update the docstring."""
    batch = pa.record_batch({"x": [1]})
    rows = (batch for _ in range(3))
    reader = pa.RecordBatchReader.from_batches(batch.schema, rows)
    reader.read_next_batch()
    reader.close()
    assert next(rows) is batch


def test_closing_a_change_feed_stops_its_threads(table):
    feed = Table.open(table.directory).changes(options=STALLING)
    with feed.to_batches() as batches:
        next(batches)
        assert working()
    assert not working()


def test_a_reader_preserves_the_error_type(table, feed):
    (table.directory / "f0").unlink()
    with pytest.raises(DataFileNotFoundError):
        feed.to_reader().read_all()


# --- observer events --------------------------------------------------------------------------------


def test_an_observer_receives_the_end(feed, kind, events):
    whole = feed.to_arrow(ReadOptions(batch_rows=100))
    (event,) = finished(events)
    assert (event.kind, event.version, event.complete) == (kind, FILES - 1, True)
    assert (event.rows, event.batches) == (FILES * ROWS, FILES * ROWS // 100)
    assert event.bytes == whole.nbytes
    assert 0 < event.first_batch_seconds <= event.seconds


def test_an_observer_receives_an_early_stop(feed, events):
    with feed.to_batches(STALLING) as batches:
        taken = next(batches)
        assert not finished(events)
    (event,) = finished(events)
    assert (event.rows, event.batches, event.complete) == (taken.num_rows, 1, False)


def test_an_observer_receives_a_failure(table, feed, events):
    for at in range(FILES):
        (table.directory / f"f{at}").unlink()
    with pytest.raises(DataFileNotFoundError):
        feed.to_arrow()
    (event,) = finished(events)
    assert (event.rows, event.first_batch_seconds, event.complete) == (0, None, False)


def test_a_limit_is_a_regular_end(feed, events):
    assert feed.narrowed(limit=7).to_arrow().num_rows == 7
    assert [(event.rows, event.complete) for event in finished(events)] == [(7, True)]


def test_converted_output_is_measured_after_conversion(feed, events):
    wanted = pa.schema([("later", pa.decimal128(38, 0))])
    feed.to_arrow(ReadOptions(schema=wanted))
    assert finished(events)[0].bytes >= FILES * ROWS * 16


def test_without_an_observer_nothing_is_measured():
    batches = iter([])
    assert metered(batches, None, kind="rows", table="t", version=0) is batches


# --- adapters ---------------------------------------------------------------------------------------


class Source(Outputs):
    def to_reader(self, options=None):
        return pa.RecordBatchReader.from_batches(pa.schema([]), iter([]))


def test_adapters_are_loaded_on_first_use(monkeypatch):
    loads = []

    def load():
        loads.append(1)
        return SimpleNamespace(to_polars=lambda source, options: (source, options))

    monkeypatch.setattr(lazydelta, "load_interop", load)
    source, options = Source(), ReadOptions()
    assert not loads
    assert source.to_polars(options) == (source, options)
    assert loads
