"""DataFusion's threads at exit, and its reliance on NOT NULL."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

from lazydelta.interop import QueryBuilder, fragments, register_datafusion
from tests.cli.support import environment
from tests.unit.scan.read.tables import Rows, field

datafusion = pytest.importorskip("datafusion")


@pytest.fixture
def broken(tmp_path):
    """A table with a null in a NOT NULL column."""
    made = Rows(tmp_path / "t", [field("x", "long", nullable=False), field("y", "string")])
    return made.file("f.parquet", pa.table({"x": [1, None], "y": ["a", "b"]})).open()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select count(*) as n from t where x is null", [{"n": 1}]),
        ("select count(x) as n from t", [{"n": 1}]),
        ("select y from t where x is null or y = 'c'", [{"y": "b"}]),
        ("select coalesce(x, 5) as n from t order by n", [{"n": 1}, {"n": 5}]),
    ],
)
def test_a_null_in_a_not_null_column_is_counted(broken, sql, expected):
    found = QueryBuilder("datafusion").register("t", broken).execute(sql).read_all()
    assert found.to_pylist() == expected
    context = datafusion.SessionContext()
    register_datafusion(context, "t", broken)
    assert pa.table(context.sql(sql)).to_pylist() == expected


def test_closing_waits_for_active_readers(monkeypatch):
    """A thread that is inside Python when the interpreter exits would abort the process."""
    next_batch, gate = fragments._SharedStream.next_batch, threading.Event()

    def slow(stream):
        try:
            return next_batch(stream)
        finally:
            time.sleep(0.1)

    def batches():
        gate.wait()
        yield from [pa.record_batch({"x": [1]})] * 3

    monkeypatch.setattr(fragments._SharedStream, "next_batch", slow)
    shared = fragments.SharedRows()
    pull = lambda at: list(shared.batches(at, "rows", batches))  # noqa: E731
    threads = [threading.Thread(target=pull, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    while shared._waiting < 2:
        time.sleep(0.001)
    gate.set()
    shared.close()
    assert shared._waiting == 0
    for thread in threads:
        thread.join()


@pytest.mark.long
def test_a_process_exits_cleanly_after_a_limit(tmp_path):
    made = Rows(tmp_path / "t", [field("x", "long")])
    for at in range(60):
        made.file(f"{at}.parquet", pa.table({"x": range(20_000)}))
    made.commit()
    sql = "select x from t where x % 7 = 3 limit 1"
    arguments = ["sql", sql, "--table", f"t={made.path}", "--engine", "datafusion"]
    for _ in range(20):
        done = subprocess.run(
            [sys.executable, "-m", "lazydelta", *arguments],
            env=environment(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
