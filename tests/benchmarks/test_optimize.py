"""Measuring OPTIMIZE: a run measures both engines and writes its section."""

from __future__ import annotations

import pytest


@pytest.mark.long
def test_a_run_measures_every_engine_and_writes_the_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("deltalake")
    module = pytest.importorskip("benchmarks.optimize", exc_type=ImportError)
    monkeypatch.setattr(module, "CACHE", tmp_path)
    arguments = ["--case", "even", "--scale", "0.0005", "--rounds", "1", "--docs", str(tmp_path)]
    assert module.main(arguments) == 0
    assert "| clustering of 20 M rows, even keys | deltalake |" in capsys.readouterr().out
    assert (tmp_path / "optimize.md").read_text().startswith("# OPTIMIZE and clustering\n")
