"""Files that a limit admits."""

from __future__ import annotations

import threading

import pytest

from lazydelta.scan.read.row_limit import RowLimit


def test_without_a_limit_all_files_are_admitted():
    limit = RowLimit(None)
    assert all(limit.admit() for _ in range(100))


def test_the_rows_of_the_first_file_tell_how_many_more_are_opened():
    limit = RowLimit(95)
    limit.count(20)
    assert [limit.admit() for _ in range(4)] == [True] * 4
    for _ in range(3):
        limit.count(20)
    limit.count(20)
    assert not limit.admit()


def test_empty_files_do_not_end_the_read():
    limit = RowLimit(2)
    limit.count(0)
    assert limit.admit()
    assert limit.admit()
    limit.count(0)
    limit.count(0)
    assert limit.admit()


@pytest.mark.parametrize("event", ["count", "stop"])
def test_a_file_after_the_first_waits(event):
    limit = RowLimit(10)
    found = []
    waiting = threading.Thread(target=lambda: found.append(limit.admit()))
    waiting.start()
    waiting.join(0.05)
    assert not found
    if event == "count":
        limit.count(10)
    else:
        limit.stop()
    waiting.join(10)
    assert found == [False]
