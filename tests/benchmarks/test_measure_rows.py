"""Benchmark runs on rows: their own limits and section of the report."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import generate, measure, spec
from benchmarks.clock import Sample
from benchmarks.limits import row_verdicts
from benchmarks.measure import Case, Result, Run
from benchmarks.plot import draw_rows
from benchmarks.report import markdown
from benchmarks.row_engines import ROW_OPERATIONS
from benchmarks.spec import RowsSpec
from benchmarks.suites import HEADLINE, RowTables, cases_of, row_cases

TABLES = RowTables()


@pytest.fixture
def cache(monkeypatch, tmp_path):
    for module in (spec, generate):
        monkeypatch.setattr(module, "CACHE", tmp_path)
    monkeypatch.setattr(command, "_LAST_RUN", tmp_path / "last-run.json")
    return tmp_path


def result(engine, workload, on="plain", *, seconds=1.0, rss=100e6, tables=TABLES):
    case = Case(engine=engine, workload=workload, spec=getattr(tables, on))
    sample = Sample(count=1, total_seconds=seconds, first_seconds=seconds, peak_rss=int(rss))
    return Result(case=case, expected=1, samples=[sample])


def a_run(tables=TABLES):
    """Figures that meet each limit exactly."""
    figures = [
        ("lazydelta", "read", "plain", 2.0, 0),
        ("lazydelta", "read: views", "plain", 2.0, 0),
        ("lazydelta", "read", "deleted", 2.6, 0),
        ("lazydelta", "stream", "plain", 2.0, 512e6),
        ("lazydelta", "stream", "many", 9.0, 614.4e6),
        ("lazydelta", "read", "small", 1.0, 0),
        ("lazydelta", "filter", "plain", 0.1, 0),
        ("lazydelta", "file", "log", 1.0, 0),
        ("lazydelta", "limit", "log", 0.05, 0),
        ("lazydelta", "count", "log", 0.2, 0),
        ("deltalake", "read: QueryBuilder", "plain", 2.5, 0),
        ("deltalake", "read: scan", "plain", 2.6, 0),
        ("deltalake", "read: to_pyarrow_table", "plain", 2.5, 0),
        ("deltalake", "read: QueryBuilder", "deleted", 0.1, 0),
        ("deltalake", "filter: QueryBuilder", "plain", 0.3, 0),
        ("deltalake", "filter: scan", "plain", 0.2, 0),
        ("deltalake", "filter: to_pyarrow_table", "plain", 0.2, 0),
        ("deltalake", "file", "log", 20.0, 0),
        ("deltalake", "limit", "log", 20.0, 0),
        ("deltalake", "count", "log", 4.0, 0),
        ("deltalake", "count: get_add_actions", "log", 1.0, 0),
        ("deltalake", "read: QueryBuilder", "small", 1.5, 0),
        ("polars", "read", "small", 1.0, 0),
        ("polars", "filter", "plain", 0.2, 0),
        ("polars", "file", "log", 2.0, 0),
        ("polars", "limit", "log", 1.0, 0),
        ("pyarrow", "read", "plain", 1.6, 0),
        ("pyarrow", "read: dataset", "plain", 1.7, 0),
    ]
    return [
        result(engine, workload, on, seconds=seconds, rss=rss, tables=tables)
        for engine, workload, on, seconds, rss in figures
    ]


def without(run, engine):
    return [entry for entry in run if entry.case.engine != engine]


def test_figures_at_the_limit_pass():
    found = row_verdicts(a_run(), TABLES)
    assert len(found) == 13
    assert [v.ratio for v in found] == [pytest.approx(v.most) for v in found]
    assert {v.word for v in found} == {"yes"}


@pytest.mark.parametrize(
    ("workload", "on", "missed"),
    [
        (
            "read",
            "plain",
            {
                "0.8 x deltalake's to_pyarrow_table",
                "1.25 x raw pyarrow on the same files",
            },
        ),
        ("read: views", "plain", {"0.8 x deltalake's QueryBuilder or scan"}),
        ("read", "deleted", {"1.3 x ours without vectors"}),
        (
            "filter",
            "plain",
            {
                "1/2 of deltalake's to_pyarrow_table",
                "1/2 of deltalake's QueryBuilder or scan",
                "1/2 of Polars scan_delta",
            },
        ),
        ("read", "small", {"1 x the fastest peer"}),
        ("file", "log", {"1/2 of the fastest peer"}),
        ("limit", "log", {"1/20 of the fastest peer"}),
        ("count", "log", {"1/5 of deltalake"}),
        ("stream", "plain", {"512 MB, whole process"}),
        ("stream", "many", {"1.2 x the figure of 200 files"}),
    ],
)
def test_a_figure_over_a_limit_fails_only_that_limit(workload, on, missed):
    run = a_run()
    for entry in run:
        case = entry.case
        if case == Case(engine="lazydelta", workload=workload, spec=getattr(TABLES, on)):
            entry.samples[0].total_seconds *= 1.01
            entry.samples[0].peak_rss = int(entry.samples[0].peak_rss * 1.01)
    assert {v.must for v in row_verdicts(run, TABLES) if v.word == "**no**"} == missed


def test_the_fastest_peer_that_answers_counts_for_a_limit_of_rows():
    run = a_run()
    by_must = {v.must: v for v in row_verdicts(without(run, "polars"), TABLES)}
    assert by_must["1/20 of the fastest peer"].ratio == pytest.approx(0.05 / 20)
    assert by_must["1/2 of Polars scan_delta"].word == "not measured"
    wrong = next(e for e in run if (e.case.engine, e.case.workload) == ("polars", "limit"))
    wrong.samples[0].count = 7
    by_must = {v.must: v for v in row_verdicts(run, TABLES)}
    assert by_must["1/20 of the fastest peer"].ratio == pytest.approx(0.05 / 20)


def test_each_engine_of_deltalake_has_its_own_figures():
    run = a_run()
    for entry in run:
        if entry.case.workload == "read: to_pyarrow_table":
            entry.samples[0].total_seconds = 8.0
    by_must = {v.must: v.ratio for v in row_verdicts(run, TABLES)}
    assert by_must["0.8 x deltalake's to_pyarrow_table"] == pytest.approx(0.25)
    assert by_must["0.8 x deltalake's QueryBuilder or scan"] == pytest.approx(0.8)


def test_the_cases_exist_once_and_are_supported_by_their_engine():
    cases = row_cases(TABLES)
    assert len(set(cases)) == len(cases)
    assert all(case.reads_rows and case.workload in ROW_OPERATIONS[case.engine] for case in cases)
    covered = {(c.engine, c.workload) for c in cases}
    assert covered == {(engine, name) for engine, names in ROW_OPERATIONS.items() for name in names}
    deleted = [case for case in cases if case.spec == TABLES.deleted]
    assert {case.engine for case in deleted} == {"lazydelta", "deltalake", "polars"}
    assert not any("to_pyarrow_table" in case.workload for case in deleted)
    assert not any(case.reads_rows for case in cases_of("full"))


def test_the_tables_have_the_specified_sizes():
    assert (TABLES.plain.files, TABLES.plain.rows) == (200, 20_000_000)
    assert (TABLES.small.files, TABLES.small.rows_per_file) == (4000, 100)
    assert (TABLES.many.files, TABLES.many.rows_per_file) == (1000, 100_000)
    assert TABLES.deleted.base == TABLES.many.base == TABLES.plain
    assert TABLES.log.files == HEADLINE.files
    assert TABLES.log.indices - TABLES.log.first_real == 1000


def test_a_run_records_its_tables_of_rows():
    small = RowTables(rows=2_000_000, log_files=100_000)
    assert RowTables.among(case.spec for case in row_cases(small)) == small
    assert RowTables.among([TABLES.plain]) == TABLES
    assert RowTables.among([HEADLINE]) is None


def test_results_on_rows_are_saved_and_loaded(tmp_path):
    kept = Run(suite="default", day=date(2026, 11, 15), busy=0.5, results=a_run())
    kept.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == kept


def report(results):
    run = Run(suite="default", day=date(2026, 11, 15), busy=0.5, results=results)
    return markdown(run, picture=Path("img/b.svg"), rows_picture=Path("img/r.svg"))


def test_the_report_has_a_section_on_rows(tmp_path):
    pytest.importorskip("matplotlib")
    report_text = report(a_run())
    for part in ("## Rows", "img/r.svg", "20,000,000 rows, 10 % of them deleted", "newest 1,000"):
        assert part in report_text
    assert report_text.count("| yes |") == 13
    assert "## Against the limits" not in report_text
    draw_rows(a_run(), TABLES, tmp_path / "img" / "r.svg")
    picture = (tmp_path / "img" / "r.svg").read_text()
    for part in ("raw pyarrow read", "Polars", "10 rows, 1,000,000 files", "0.05 s"):
        assert part in picture


def test_a_small_run_has_ratios_and_no_verdict():
    small = RowTables(rows=200_000, log_files=10_000)
    report_text = report(a_run(small))
    assert "200,000 rows, and 10,000 files" in report_text
    assert "0.800 (at most 0.800)" in report_text
    assert "| yes |" not in report_text


def test_a_very_slow_case_runs_once(cache, monkeypatch):
    seconds = iter([31.0, 29.0, 29.0, 29.0])
    monkeypatch.setattr(
        measure, "_run_once", lambda *_: Sample(count=20, total_seconds=next(seconds))
    )
    table = RowsSpec(files=2, rows_per_file=10)
    cases = [Case(engine="pyarrow", workload=w, spec=table) for w in ("read", "stream")]
    assert [len(found.samples) for found in measure.measure(cases, rounds=3)] == [1, 3]


def test_the_command_writes_a_report_only_on_request(cache, capsys):
    pytest.importorskip("matplotlib")
    wish = ["--quick", "--rows-only", "--rows", "4_000", "--rounds", "1"]
    narrow = ["--engine", "pyarrow", "--workload", "read", "--workload", "stream"]
    assert command.main([*wish, *narrow]) == 0
    report_text = capsys.readouterr().out
    assert "(quick, partial)" in report_text
    assert "### Rows: 200 files, 4,000 rows" in report_text
    kept = Run.load(cache / "last-run.json")
    assert [(r.case.workload, r.samples[0].count) for r in kept.results] == [
        ("read", 4000),
        ("stream", 4000),
        ("read", 40),
    ]
    assert command.main(["--reuse", "--docs", str(cache)]) == 0
    assert (cache / "files-and-rows.md").read_text().strip() == report_text.strip()
    assert {path.name for path in (cache / "img").iterdir()} == {"benchmarks-rows.svg"}
