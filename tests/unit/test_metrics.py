"""Observers receive events; one that raises never fails an operation."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from lazydelta import Config, Table
from lazydelta.metrics import ReadFinished, ScanFinished, SegmentListed, StoreCalled


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
