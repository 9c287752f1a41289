"""Spark benchmarks: cases, limits and report."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from benchmarks.clock import Sample
from benchmarks.measure import Case, Result, Run
from benchmarks.spark import spark_cases
from benchmarks.spark_engines import DELTA, FORMAT, OURS, PARQUET
from benchmarks.spark_report import (
    draw_spark,
    spark_section,
    spark_verdicts,
)
from benchmarks.suites import HEADLINE, RowTables

PICTURE = Path("img/p.svg")


def result(engine, workload, spec, seconds, memory=1e9, **more):
    sample = Sample(
        count=1, total_seconds=seconds, first_seconds=seconds, peak_rss=int(memory), **more
    )
    return Result(
        case=Case(engine=engine, workload=workload, spec=spec), expected=1, samples=[sample]
    )


def on_the_edge():
    """Figures that meet each limit exactly."""
    tables = RowTables()
    hundred, four = replace(HEADLINE, files=100_000), replace(HEADLINE, files=4_000_000)
    return [
        result(OURS, "partition", HEADLINE, 4.0),
        result(DELTA, "partition", HEADLINE, 4.0),
        result(OURS, "all", hundred, 0.8),
        result(OURS, "all", HEADLINE, 8.0, 1.0e9),
        result(OURS, "all", four, 32.0, 1.2e9),
        result(DELTA, "all", HEADLINE, 10.0),
        result(OURS, "read", tables.plain, 2.3),
        result(PARQUET, "read", tables.plain, 2.0),
        result(FORMAT, "read", tables.plain, 4.0),
        result(DELTA, "read", tables.plain, 2.6),
        *(
            result(engine, query, tables.plain, seconds)
            for query, of_format in (
                ("filter", 12.0),
                ("aggregate", 17.0),
                ("count", 12.0),
                ("join", 17.0),
            )
            for engine, seconds in ((OURS, 9.0), (FORMAT, of_format), (DELTA, 10.0))
        ),
        result(OURS, "append", tables.plain, 5.0),
        result(DELTA, "append", tables.plain, 5.0),
        result(OURS, "append: partitioned", tables.plain, 6.0),
        result(DELTA, "append: partitioned", tables.plain, 5.0),
        result(OURS, "read", tables.deleted, 3.0),
        result(DELTA, "read", tables.deleted, 2.0),
        result(OURS, "merge", tables.deleted, 6.5),
        result(DELTA, "merge", tables.deleted, 5.0),
        result(OURS, "optimize", tables.plain, 6.0),
        result(DELTA, "optimize", tables.plain, 5.0),
        result(OURS, "cluster", tables.plain, 6.0),
        result(DELTA, "cluster", tables.plain, 5.0),
    ]


def test_figures_at_the_limit_pass():
    assert [verdict.word for verdict in spark_verdicts(on_the_edge())] == ["yes"] * 22


@pytest.mark.parametrize("number", range(34))
def test_a_figure_over_a_limit_fails(number):
    results = on_the_edge()
    sample, engine = results[number].samples[0], results[number].case.engine
    factor = 1.5 if engine in (OURS, FORMAT) else 1 / 1.5
    if results[number].case.spec.files == 100_000:
        factor = 1 / 1.5
    sample.total_seconds *= factor
    assert "**no**" in [verdict.word for verdict in spark_verdicts(results)]


def test_a_missing_peer_leaves_limits_without_a_verdict():
    cases = spark_cases("default", with_delta=False)
    assert DELTA not in {case.engine for case in cases}
    rest = [r for r in on_the_edge() if r.case.engine != DELTA]
    words = [verdict.word for verdict in spark_verdicts(rest)]
    assert words.count("not measured") == 18
    assert words.count("yes") == 4


def test_every_limit_has_its_cases():
    cases = {(c.engine, c.workload, c.spec) for c in spark_cases("default", with_delta=True)}
    wanted = {(r.case.engine, r.case.workload, r.case.spec) for r in on_the_edge()}
    assert wanted <= cases


def test_a_run_has_a_page_and_a_plot(tmp_path):
    run = Run(suite="default", day=date(2026, 11, 16), busy=0.1, results=on_the_edge())
    section = spark_section(run, picture=PICTURE)
    assert "| native read, 20 M rows |" in section
    assert section.startswith("# Spark\n")
    draw_spark(run.results, tmp_path / "p.svg")
    assert "delta-spark" in (tmp_path / "p.svg").read_text()


def test_a_failed_case_is_in_the_report():
    results = [*on_the_edge()[:-1], Result(case=on_the_edge()[-1].case, expected=1)]
    run = Run(suite="quick", day=date(2026, 11, 16), busy=0.1, results=results)
    section = spark_section(run, picture=PICTURE)
    assert "did not run" in section
    assert "limits are for other sizes" in section
