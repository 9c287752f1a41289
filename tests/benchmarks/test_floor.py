"""Filter benchmark: every decoder and every engine returns the same number of rows."""

from __future__ import annotations

import pytest

from benchmarks import floor, generate, spec


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    for module in (spec, generate):
        monkeypatch.setattr(module, "CACHE", tmp_path)


def asked_for(capsys):
    lines = capsys.readouterr().out.splitlines()
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def test_decoders_and_queries_are_measured_and_agree(capsys):
    pytest.importorskip("deltalake")
    pytest.importorskip("polars")
    assert floor.main(["--rounds", "1", "--rows", "200"]) == 0
    cells = asked_for(capsys)
    assert [row[0] for row in cells] == [
        *(f"decoding alone: {name}" for name in floor.DECODERS),
        *(f"the query: {name}" for name in floor.ENGINES),
    ]
    assert all(float(figure) > 0 for row in cells for figure in row[1:])


def test_a_decoder_that_loses_rows_is_reported(monkeypatch, capsys):
    pytest.importorskip("deltalake")
    pytest.importorskip("polars")
    decode = floor.DECODERS["pyarrow"]
    monkeypatch.setitem(floor.DECODERS, "pyarrow", lambda path: decode(path).slice(1))
    assert floor.main(["--rounds", "1", "--rows", "200"]) == 1
    capsys.readouterr()
