"""Rows are returned in plan order, whichever file is read first."""

from __future__ import annotations

import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Config, ReadOptions, Table
from lazydelta.scan.read import reading as read
from tests.builders import TableBuilder, add

FILES = 12


@pytest.fixture
def directory(tmp_path):
    actions = []
    for number in range(FILES):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": [2 * number, 2 * number + 1]}), path)
        actions.append(add(path.name, size=path.stat().st_size))
    builder = TableBuilder(tmp_path, schema={"id": "long"})
    builder.commit(*actions[:5]).checkpoint()
    for action in actions[5:]:
        builder.commit(action)
    return tmp_path


@pytest.fixture
def opened(directory):
    return Table.open(directory, config=Config(read=ReadOptions(files_at_once=2)))


def planned(scan, limit=None):
    """Return the ids in the order of the plan."""
    numbers = [int(file.path.partition(".")[0]) for file in scan.files(limit)]
    return [row for number in numbers for row in (2 * number, 2 * number + 1)]


@pytest.fixture
def late(monkeypatch):
    """Make the first file of each read finish after the second."""

    class Late(read.Reading):
        def __init__(self, *args, **how):
            super().__init__(*args, **how)
            self._turn, self._second_is_done = [], threading.Event()
            self._lock = threading.Lock()

        def _read(self, tasks):
            with self._lock:
                self._turn.append(tasks[0])
            if tasks[0] is self._turn[0]:
                self._second_is_done.wait(1)
            yield from super()._read(tasks)
            self._second_is_done.set()

    monkeypatch.setattr("lazydelta.scan.read.Reading", Late)


def polars(scan):
    pytest.importorskip("polars")
    return scan.scan_polars().collect().to_arrow()


def duckdb(scan):
    pytest.importorskip("duckdb")
    return scan.to_duckdb().to_arrow_table()


WAYS = {
    "arrow": lambda scan: scan.to_arrow(),
    "reader": lambda scan: scan.to_reader().read_all(),
    "stream": lambda scan: pa.Table.from_batches(list(scan.to_batches())),
    "polars": lambda scan: scan.to_polars().to_arrow(),
    "lazy polars": polars,
    "duckdb": duckdb,
    "dataset": lambda scan: scan.to_pyarrow_dataset().to_table(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_rows_are_in_plan_order(opened, late, way, strategy):
    scan = opened.scan(strategy=strategy)
    assert WAYS[way](scan)["id"].to_pylist() == planned(scan)


@pytest.mark.parametrize("where", [None, "id >= 4"])
def test_a_limit_takes_the_first_rows_of_the_plan(opened, late, where):
    scan = opened.scan(where)
    expected = [row for row in planned(scan, limit=FILES) if not where or row >= 4]
    assert opened.scan(where, limit=5).to_arrow()["id"].to_pylist() == expected[:5]
    assert sorted(scan.to_arrow()["id"].to_pylist()) == sorted(expected)


def test_unordered_rows_are_an_option(opened, late):
    scan = opened.scan()
    options = ReadOptions(ordered=False, files_at_once=2)
    found = scan.to_arrow(options)["id"].to_pylist()
    assert sorted(found) == sorted(planned(scan))
    assert found != planned(scan)


def test_every_process_returns_the_same_rows(directory):
    code = f"""
from lazydelta import Table
table = Table.open({str(directory)!r})
print(table.to_arrow()["id"].to_pylist(), table.scan(limit=3).to_arrow()["id"].to_pylist())
print([file.path for file in table.scan().files()])
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        for _ in range(3)
    }
    assert len(seen) == 1
