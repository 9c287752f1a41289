"""Measuring an object store: a run writes its page, and the verdicts of its samples."""

from __future__ import annotations

import pytest

from benchmarks.store_report import StoreSample, store_verdicts
from tests.emulators.programs import Unavailable


def _sample(seconds=1.0, depth=3, sent=100, **more):
    return StoreSample(seconds=seconds, depth=depth, sent=sent, requests=4, **more)


def _verdict(results, what):
    return next(v for v in store_verdicts(results) if v.what == what)


@pytest.mark.long
def test_a_run_measures_appends_and_writes_the_page(tmp_path, capsys):
    stores = pytest.importorskip("benchmarks.stores", exc_type=ImportError)
    try:
        stores.main(["--quick", "--workload", "append", "--docs", str(tmp_path)])
    except Unavailable as error:
        pytest.skip(str(error))
    assert "| append, open handle | lazydelta |" in capsys.readouterr().out
    assert (tmp_path / "object-stores.md").read_text().startswith("# Object stores\n")
    assert (tmp_path / "img" / "benchmarks-stores.svg").exists()


def test_times_compare_medians_with_the_fastest_peer():
    samples = {
        "lazydelta limit": [_sample(0.5), _sample(0.4), _sample(9.0)],
        "deltalake limit": [_sample(2.0)],
        "polars limit": [_sample(1.0)],
    }
    verdict = _verdict({"limit": samples}, "rows: any ten")
    assert (verdict.ratio, verdict.word) == (0.5, "yes")


def test_a_peer_with_a_problem_is_not_compared():
    samples = {
        "lazydelta limit": [_sample(0.5)],
        "deltalake limit": [_sample(2.0)],
        "polars limit": [_sample(0.1, problem="counted 0, expected 10")],
    }
    assert _verdict({"limit": samples}, "rows: any ten").ratio == 0.25


def test_the_largest_depth_of_the_rounds_counts():
    samples = {"lazydelta": [_sample(depth=3), _sample(depth=4)]}
    verdict = _verdict({"append": samples}, "depth: append, open handle")
    assert (verdict.ratio, verdict.word) == (4.0, "**no**")


def test_a_lost_append_fails_the_row():
    samples = {"lazydelta": [_sample(problem="100 rows lost, 0 duplicated")], "deltalake": []}
    verdict = _verdict({"race": samples, "appends": {}}, "appends lost, duplicated or failed")
    assert verdict.word == "**no**"
