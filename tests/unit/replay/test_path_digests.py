"""Path digests: exact for other paths, under any memory limit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta.replay import PathDigests


@pytest.mark.parametrize("memory_limit", [0, 1000, 1 << 20])
def test_a_set_contains_what_was_added_and_nothing_else(memory_limit):
    with PathDigests(memory_limit=memory_limit) as digests:
        for start in range(0, 500, 100):
            digests.add(
                pa.array([f"p={n % 7}/part-{n}.parquet" for n in range(start, start + 100)])
            )
            digests.add(pa.array([], pa.string()))
        paths = pa.array([f"p={n % 7}/part-{n}.parquet" for n in range(600)])
        assert digests.contains(paths).tolist() == [n < 500 for n in range(600)]
        assert bool(digests.spilled_runs) == (memory_limit < 8000)
        digests.add(pa.array(["later", "later"]))
        assert digests.contains(pa.array(["later", "never"])).tolist() == [True, False]


def test_an_empty_set_contains_nothing():
    digests = PathDigests(memory_limit=0)
    assert digests.contains(pa.array(["a"])).tolist() == [False]
    assert digests.contains(pa.array([], pa.string())).tolist() == []
    digests.close()


def test_temporary_files_are_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    digests = PathDigests(memory_limit=0)
    digests.add(pa.array(["a"]))
    assert list(tmp_path.iterdir())
    digests.close()
    assert not list(tmp_path.iterdir())
