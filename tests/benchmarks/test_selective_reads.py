"""Selective reads of a large row group: every engine returns the same rows of every writer."""

from __future__ import annotations

import pytest

from benchmarks import selective_reads


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(selective_reads, "CACHE", tmp_path)


def test_every_engine_is_measured_on_every_layout(capsys):
    pytest.importorskip("deltalake")
    pytest.importorskip("polars")
    assert selective_reads.main(["--rounds", "1", "--rows", "2000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert [(row[0], row[1]) for row in cells] == [
        (writer, engine) for writer in selective_reads.WRITERS for engine in selective_reads.ENGINES
    ]
    assert all(float(figure) > 0 for row in cells for figure in row[2:])


def test_engines_that_disagree_are_an_error(monkeypatch, capsys):
    pytest.importorskip("deltalake")
    wrong = {"right": lambda *_: 20, "wrong": lambda *_: 21}
    monkeypatch.setattr(selective_reads, "ENGINES", wrong)
    assert selective_reads.main(["--rounds", "1", "--rows", "2000"]) == 1
    capsys.readouterr()
