"""Decoder benchmark: every decoder reads the same rows, and a wrong count is reported."""

from __future__ import annotations

import pytest

from benchmarks import decoders
from benchmarks.rows import generate_rows
from benchmarks.spec import RowsSpec


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    where = tmp_path_factory.mktemp("decoders") / "table"
    generate_rows(RowsSpec(files=2, rows_per_file=50), where)
    return where


@pytest.mark.parametrize("name", decoders.DECODERS)
def test_every_decoder_reads_every_row(name, table):
    pytest.importorskip(decoders.DECODERS[name][0])
    found = decoders.measured(name, table)
    assert found["rows"] == 100
    assert found["wall"] > 0


@pytest.mark.parametrize(("wrong", "code"), [(0, 0), (1, 1)])
def test_the_best_of_the_rounds_is_shown(monkeypatch, capsys, table, wrong, code):
    calls = []

    def child(name, where):
        calls.append((name, where))
        if name == "duckdb":  # as if it were not installed
            return None
        late = len(calls) > len(decoders.DECODERS)
        rows = 100 + (wrong if name == "polars, Arrow strings" else 0)
        seconds = {"wall": 2.0 - late, "user": 1.0 + late, "system": 0.25}
        return {"rows": rows, "faults": 3000.0} | seconds

    monkeypatch.setattr(decoders, "_child", child)
    assert decoders.main(["--rounds", "2", "--table", str(table)]) == code
    shown = capsys.readouterr().out
    assert "| lazydelta | 1.00 | 1.00 | 0.25 | 3 |" in shown
    assert "duckdb" not in shown
    assert len(calls) == 2 * len(decoders.DECODERS)
    assert {where for _, where in calls} == {table}
