"""Measuring VACUUM: a run measures both engines, validates what is left and writes its section."""

from __future__ import annotations

import pytest

from tests.emulators.programs import Unavailable


def test_a_run_measures_every_engine_and_writes_the_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("deltalake")
    module = pytest.importorskip("benchmarks.vacuum", exc_type=ImportError)
    monkeypatch.setattr(module, "CACHE", tmp_path)
    monkeypatch.setattr("benchmarks.spec.CACHE", tmp_path)
    monkeypatch.setattr("benchmarks.generate.CACHE", tmp_path)
    monkeypatch.setattr("tempfile.tempdir", None)
    arguments = ["--files", "1000", "--operation", "full", "--docs", str(tmp_path)]
    try:
        assert module.main(arguments) == 0
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert "| VACUUM full | deltalake |" in capsys.readouterr().out
    page = (tmp_path / "vacuum.md").read_text()
    assert page.startswith("# VACUUM and health\n")
    assert (tmp_path / "img" / "benchmarks-vacuum.svg").exists()
