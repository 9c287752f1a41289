"""Observers receive events; one that raises never fails an operation."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from lazydelta import Config, Table
from lazydelta.metrics import ReadFinished, RowsChanged, ScanFinished, SegmentListed, StoreCalled


@pytest.fixture
def path(tmp_path):
    Table.open(tmp_path / "table").write(pa.table({"id": [1, 2, 3]}))
    return tmp_path / "table"


def test_a_raising_observer_fails_no_read_and_is_logged_once(path, caplog):
    seen = []

    def observer(event):
        seen.append(type(event))
        raise RuntimeError("of the observer")

    table = Table.open(path, config=Config(observer=observer))
    with caplog.at_level(logging.ERROR, "lazydelta"):
        assert table.to_arrow().num_rows == 3
        assert table.scan("id > 1").to_arrow().num_rows == 2
    assert {StoreCalled, SegmentListed, ScanFinished, ReadFinished} <= set(seen)
    (record,) = [r for r in caplog.records if "observer" in r.message]
    assert "of the observer" in str(record.exc_info[1])


def test_an_interrupt_in_an_observer_is_not_swallowed(path):
    def observer(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Table.open(path, config=Config(observer=observer)).to_arrow()


def test_changes_of_rows_are_reported(path):
    seen = []
    table = Table.open(path, config=Config(observer=seen.append))
    table.delete("id = 1", dry_run=True)
    table.delete("id = 1")
    table.update({"id": "id"}, "id = 99")
    source = pa.table({"id": [4]})
    table.merge(source, "t.id = s.id").when_not_matched_insert("*").execute()
    events = [event for event in seen if isinstance(event, RowsChanged)]
    assert [(event.operation, event.version, event.committed) for event in events] == [
        ("DELETE", 0, False),
        ("DELETE", 1, True),
        ("UPDATE", 1, False),
        ("MERGE", 2, True),
    ]
    assert events[1].metrics["numDeletedRows"] == 1
    assert events[3].metrics["numTargetRowsInserted"] == 1
    assert events[1].table == table.url
