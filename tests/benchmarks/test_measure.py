"""Benchmark runs: measured in subprocesses, checked against expected counts, compared with limits."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import pytest

from benchmarks import engines, generate, spec
from benchmarks.clock import Sample
from benchmarks.engines import OPERATIONS
from benchmarks.limits import verdicts
from benchmarks.measure import Case, Result, Run, measure
from benchmarks.plot import draw
from benchmarks.report import markdown, problems
from benchmarks.spec import TableSpec
from benchmarks.suites import HEADLINE, MATRIX, SPARK_LIKE, cases_of

SMALL = TableSpec(files=500, tail=2, tail_adds=40)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    for module in (spec, generate):
        monkeypatch.setattr(module, "CACHE", tmp_path)
    return tmp_path


def result(engine, workload, table, *, seconds=1.0, rss=100e6, count=1, expected=1):
    case = Case(engine=engine, workload=workload, spec=table)
    sample = Sample(count=count, total_seconds=seconds, first_seconds=seconds, peak_rss=int(rss))
    return Result(case=case, expected=expected, samples=[sample])


def a_run_on(table):
    """Figures that meet each limit exactly, except those of other sizes."""
    return [
        result("lazydelta", "first", table, seconds=0.08, rss=150e6),
        result("lazydelta", "all", table, seconds=1.0, rss=200e6),
        result("lazydelta", "partition", table, seconds=0.5),
        result("lazydelta", "nothing", table, seconds=0.25),
        result("deltalake", "open", table, seconds=4.0),
        result("deltalake", "all", table, seconds=6.0, rss=800e6),
        result("deltalake", "all: file_uris", table, seconds=5.0, rss=900e6),
        result("deltalake", "partition", table, seconds=4.0),
        result("deltalake", "nothing", table, seconds=2.0),
        result("deltalake", "nothing: partition", table, seconds=0.1),
        result("polars", "nothing", table, seconds=10.0),
        result("pyarrow", "all", table, seconds=0.5),
    ]


def words(results, table):
    return [verdict.word for verdict in verdicts(results, table)]


def test_figures_at_the_limit_pass_and_missing_figures_have_no_verdict():
    found = verdicts(a_run_on(HEADLINE), HEADLINE)
    assert [v.what for v in found if v.word == "not measured"] == [
        "first 100 files",
        "all files, no filter, 3 M",
        "peak RSS, all files streamed, 5 M",
    ]
    assert all(v.ratio == pytest.approx(v.most) for v in found if v.ratio is not None)
    assert {v.word for v in found} == {"yes", "not measured"}


@pytest.mark.parametrize("slow", ["first", "all", "partition", "nothing"])
def test_figures_over_the_limit_fail(slow):
    run = a_run_on(HEADLINE)
    for entry in run:
        if (entry.case.engine, entry.case.workload) == ("lazydelta", slow):
            entry.samples[0].total_seconds *= 1.01
    assert "**no**" in words(run, HEADLINE)


def test_the_fastest_figure_of_a_peer_counts():
    run = a_run_on(HEADLINE)
    run.append(result("deltalake", "nothing: scan", HEADLINE, seconds=1.9))
    by_must = {v.must: v.word for v in verdicts(run, HEADLINE)}
    assert by_must["1/8 of deltalake"] == "**no**"
    assert by_must["1/5 of deltalake open + list"] == "yes"


def test_sizes_are_compared_across_tables():
    run = a_run_on(HEADLINE)
    run.append(result("lazydelta", "first", replace(HEADLINE, files=10_000), seconds=0.05))
    five = replace(HEADLINE, files=5_000_000)
    run.append(result("lazydelta", "all", five, seconds=9.0, rss=239e6))
    by_must = {v.must: v for v in verdicts(run, HEADLINE)}
    assert by_must["1.5 x our own time on 10 k files"].word == "**no**"
    assert by_must["1.2 x the 1 M figure"].word == "yes"


def test_a_wrong_count_has_no_verdict_and_is_reported():
    run = a_run_on(HEADLINE)
    run[3].samples[0].count = 7
    assert words(run, HEADLINE).count("not measured") == 5
    assert problems(run) == ["lazydelta, nothing, 1000000 files (tail=10): counted [7], expected 1"]


def test_peers_are_measured_and_agree_with_the_generator(cache):
    pytest.importorskip("deltalake")
    names = [("deltalake", name) for name in OPERATIONS["deltalake"]] + [("pyarrow", "all")]
    cases = [Case(engine=engine, workload=name, spec=SMALL) for engine, name in names]
    results = measure(cases, rounds=1)
    assert problems(results) == []
    for entry in results:
        assert entry.best("total_seconds") <= entry.median("total_seconds")
        assert 10e6 < entry.best("base_rss") <= entry.best("peak_rss") < 1e9
        assert entry.best("import_seconds") > 0
    assert SMALL.path.parent == cache


def test_a_short_operation_runs_three_times_a_round_once_that_is_known(cache):
    messages = []
    case = Case(engine="pyarrow", workload="all", spec=SMALL)
    (short,) = measure([case], rounds=2, log=messages.append)
    assert len(messages) == 2
    assert len(short.samples) == 1 + 3


def test_lazydelta_is_measured_and_its_requests_are_counted(cache):
    cases = [Case(engine="lazydelta", workload=w, spec=SMALL) for w in ("first", "partition")]
    results = measure(cases, rounds=1)
    assert problems(results) == []
    for entry in results:
        assert entry.account is not None
        assert entry.account.requests > 0
        assert 0 < entry.account.request_bytes <= entry.account.read_bytes


@pytest.mark.parametrize("workload", OPERATIONS["lazydelta"])
def test_every_operation_of_lazydelta_agrees_with_the_generator(cache, workload):
    case = Case(engine="lazydelta", workload=workload, spec=SMALL)
    table = generate.table_for(SMALL)
    sample = engines.run("lazydelta", workload, str(table), accounting=True)
    assert sample.error == ""
    assert sample.count == case.expected_count(generate.expected_facts(SMALL))
    assert sample.requests > 0


@pytest.mark.parametrize(("engine", "error"), [("pyarrow", ""), ("lazydelta", "exit 134: ['bye']")])
def test_a_peer_that_crashes_after_its_result_counts(cache, monkeypatch, engine, error):
    line = json.dumps(asdict(Sample(count=1, total_seconds=1.0)))
    words = [sys.executable, "-c", f"import sys; print({line!r}); sys.exit('bye')"]
    run = subprocess.run

    def fallen(_, **how):
        done = run(words, **how)
        done.returncode = 134
        return done

    monkeypatch.setattr(subprocess, "run", fallen)
    (found,) = measure([Case(engine=engine, workload="all", spec=SMALL)], rounds=1)
    assert [sample.error for sample in found.samples] == [error]


def test_a_failing_engine_is_reported_once_and_not_run_again(cache):
    path = generate.table_for(SMALL)
    for name in path.glob("_delta_log/*.parquet"):
        name.write_bytes(b"not Parquet")
    case = Case(engine="pyarrow", workload="all", spec=SMALL)
    (failed,) = measure([case], rounds=3)
    assert len(failed.samples) == 1
    assert "ArrowInvalid" in failed.problem
    assert problems([failed])[0].startswith("pyarrow, all, 500 files")


def test_results_are_saved_and_loaded(tmp_path):
    run = a_run_on(SPARK_LIKE)
    run[0].account = Sample(requests=3, request_bytes=1000)
    kept = Run(suite="full", day=date(2026, 11, 15), busy=0.5, results=run)
    kept.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == kept


def test_the_report_has_every_table_and_no_machine_details(tmp_path):
    pytest.importorskip("matplotlib")
    run = a_run_on(HEADLINE) + a_run_on(SPARK_LIKE) + a_run_on(MATRIX["V2 with sidecars"])
    run.append(result("polars", "all", SPARK_LIKE, count=3, expected=4))
    run[0].account = Sample(requests=42, request_bytes=123_456)
    report_text = markdown(
        Run(suite="full", day=date(2026, 11, 15), busy=0.5, results=run),
        picture=Path("img/b.svg"),
        rows_picture=Path("img/r.svg"),
    )
    assert "## Rows" not in report_text
    for part in ("42 (0.1 MB)", "V2 with sidecars", "Spark-like", "2026-11-15", "img/b.svg"):
        assert part in report_text
    assert "## What failed" in report_text
    assert str(Path(__file__).resolve().parent.parent.parent) not in report_text
    draw(run, HEADLINE, tmp_path / "img" / "b.svg")
    picture = (tmp_path / "img" / "b.svg").read_text()
    assert "raw pyarrow read" in picture
    assert "deltalake (open + list)" in picture
    assert "Polars" not in picture  # it has no valid figure for all files in this run


def test_every_case_of_a_suite_exists_once():
    for suite in ("quick", "default", "full"):
        cases = cases_of(suite)
        assert len(set(cases)) == len(cases)
        assert all(case.workload in OPERATIONS[case.engine] for case in cases)
    assert {c.spec.files for c in cases_of("quick")} == {10_000, 100_000}
    assert {c.spec.files for c in cases_of("default")} >= {10_000, 1_000_000, 3_000_000, 5_000_000}
