"""Spark benchmarks: sessions, expected counts, limits, and the page of several runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import lazydelta
from benchmarks.generate import generate
from benchmarks.spark import run_session
from benchmarks.spark_cases import (
    DELTA,
    FORMAT,
    LAYOUTS,
    OURS,
    PARQUET,
    QUERIES,
    Session,
    expected_counts,
    plan_filters,
    plan_table,
    row_tables,
    spark_sessions,
)
from benchmarks.spark_engines import Memory, Timing
from benchmarks.spark_report import CLUSTER, draw_spark, spark_section, spark_verdicts
from benchmarks.spark_results import Result, Run
from benchmarks.spec import TableSpec

PICTURE = Path("img/p.svg")
TABLES = row_tables("default")
TIMES = {"read": (0.9, 1.7, 1.0), "filter": (0.9, 1.2, 1.0), "aggregate": (0.9, 1.7, 1.0)}
TIMES |= {"count": (0.9, 1.2, 1.0), "join": (0.9, 1.7, 1.0)}
PLANS = {1_000: (1.5, 1.5), 10_000: (9.0, 1.0), 100_000: (0.5, 1.0), 1_000_000: (0.2, 1.0)}


def result(engine, workload, spec, memory=1000, **seconds):
    timings = {
        name: Timing(name=name, cold=[cold], warm=[warm], counts=[1])
        for name, (cold, warm) in seconds.items()
    }
    return Result(
        session=Session(engine=engine, workload=workload, spec=spec),
        day=date(2026, 11, 19),
        expected=dict.fromkeys(timings, 1),
        timings=timings,
        memory=Memory(
            start_seconds=1.0, driver_rss=memory, driver_heap=memory, executors_memory=memory
        ),
    )


def run_of(results, suite="default"):
    return Run(suite=suite, results={r.session: r for r in results})


def on_the_edge():
    """Figures that meet each limit exactly."""
    found = []
    for files, ours in PLANS.items():
        for levels in range(len(LAYOUTS)):
            spec = plan_table(files, levels)
            filters = ["session", *plan_filters(spec)]
            found.append(result(OURS, "plan", spec, **dict.fromkeys(filters, ours)))
            found.append(result(DELTA, "plan", spec, **dict.fromkeys(filters, (1.0, 1.0))))
    found.append(result(OURS, "plan", plan_table(4_000_000, 1), memory=1200))
    for place, engine in enumerate((OURS, FORMAT, DELTA)):
        times = {name: (5.0, TIMES[name][place]) for name in QUERIES}
        found.append(result(engine, "rows", TABLES.plain, **times))
    found.append(result(PARQUET, "rows", TABLES.plain, read=(5.0, 0.9 / 1.15)))
    rest = {
        "append": (TABLES.plain, {"append": 1.0, "append: partitioned": 1.2}),
        "stream": (TABLES.plain, {"empty": 1.0, "small": 1.0}),
        "deleted": (TABLES.deleted, {"read": 1.5}),
        "merge": (TABLES.deleted, {"merge": 1.3}),
        "optimize": (TABLES.plain, {"optimize": 1.2}),
        "cluster": (TABLES.plain, {"cluster": 1.2}),
    }
    for workload, (spec, times) in rest.items():
        ours = {name: (5.0, seconds) for name, seconds in times.items()}
        found.append(result(OURS, workload, spec, **ours))
        found.append(result(DELTA, workload, spec, **dict.fromkeys(times, (5.0, 1.0))))
    return found


def words(results):
    return [verdict.word for verdict in spark_verdicts(run_of(results))]


def test_figures_at_the_limit_pass():
    assert set(words(on_the_edge())) == {"yes"}


def slower(results, engine, workload, operation, state):
    for found in results:
        if (found.session.engine, found.session.workload) == (engine, workload):
            for timing in found.timings.values():
                if operation in (None, timing.name):
                    setattr(timing, state, [1.5 * value for value in getattr(timing, state)])
    return results


@pytest.mark.parametrize(
    ("engine", "workload", "operation", "state", "misses"),
    [
        (OURS, "plan", None, "cold", 3),
        (OURS, "plan", "statistics", "warm", 4),
        (OURS, "rows", "read", "warm", 2),  # of delta-spark, and of the Parquet reader
        (FORMAT, "rows", "count", "warm", 1),
        (OURS, "append", "append: partitioned", "warm", 1),
        (OURS, "stream", "empty", "warm", 1),
        (OURS, "deleted", None, "warm", 1),
        (OURS, "merge", None, "warm", 1),
        (OURS, "optimize", None, "warm", 1),
        (OURS, "cluster", None, "warm", 1),
    ],
)
def test_a_figure_over_a_limit_fails(engine, workload, operation, state, misses):
    found = words(slower(on_the_edge(), engine, workload, operation, state))
    assert found.count("**no**") == misses


@pytest.mark.parametrize("figure", ["driver_heap", "driver_rss", "executors_memory"])
def test_memory_that_grows_with_the_table_fails(figure):
    results = on_the_edge()
    largest = max(results, key=lambda found: found.session.spec.files)
    setattr(largest.memory, figure, 2000)
    assert words(results).count("**no**") == 1


def test_the_worst_case_decides_about_a_plan():
    results = on_the_edge()
    one = next(r for r in results if r.session.spec == plan_table(1_000_000, 2))
    one.timings["both"].cold = [0.7]
    verdict = spark_verdicts(run_of(results))[0]
    assert verdict.ratio == pytest.approx(0.7)
    assert verdict.shown.endswith("worst of 10: two levels, both")


def test_without_the_peer_there_is_no_verdict():
    found = words([r for r in on_the_edge() if r.session.engine != DELTA])
    assert found.count("yes") == 3  # memory, and Spark's own reader
    assert found.count("not measured") == len(found) - 3


def test_a_wrong_count_is_a_problem_and_no_figure():
    results = on_the_edge()
    timing = next(r for r in results if r.session.workload == "merge").timings["merge"]
    timing.counts.append(2)
    assert words(results).count("not measured") == 1
    assert "counted [1, 2], expected 1" in spark_section(run_of(results), picture=PICTURE)


def test_every_limit_has_its_session():
    wanted = {found.session for found in on_the_edge()}
    assert wanted == set(spark_sessions("default"))


def test_a_session_survives_json():
    for session in spark_sessions("quick", master=CLUSTER):
        assert Session.from_json(json.loads(json.dumps(session.to_json()))) == session


@pytest.mark.parametrize("levels", range(len(LAYOUTS)))
def test_the_expected_files_of_a_predicate_are_those_of_a_scan(levels, tmp_path):
    spec = TableSpec(files=4_000, tail=3, tail_adds=200, partition_levels=levels)
    generate(spec, tmp_path / "table")
    table = lazydelta.Table.open(tmp_path / "table")
    expected = expected_counts(Session(engine=OURS, workload="plan", spec=spec), {})
    for name, where in plan_filters(spec).items():
        found = sum(batch.num_rows for batch in table.scan(where=where).file_batches())
        assert found == expected[name] > 0


def test_rounds_are_added_up():
    found = Result(session=spark_sessions("quick")[0], day=date(2026, 11, 19), expected={"both": 3})
    for cold in (1.0, 2.0, 9.0):
        timing = Timing(name="both", cold=[cold], warm=[cold / 2], counts=[3])
        found.add_output([json.dumps({"timing": asdict(timing)})])
    assert (found.seconds("both", "cold"), found.seconds("both", "warm")) == (2.0, 1.0)
    assert not found.problems
    found.add_output(['{"error": "OutOfMemoryError"}'])
    assert found.problems[0].endswith("OutOfMemoryError")


def test_a_session_that_takes_too_long_is_stopped():
    session = spark_sessions("quick")[0]
    found = Result(session=session, day=date(2026, 11, 19), expected={"no filter": 1})
    run_session(session, found, seconds=0.05)
    assert found.error.startswith("stopped after")


def test_a_later_run_replaces_its_own_part(tmp_path):
    run_of(on_the_edge()).save(tmp_path / "run.json")
    run = Run.load(tmp_path / "run.json", "default")
    assert set(words(run.results.values())) == {"yes"}
    later = result(OURS, "merge", TABLES.deleted, merge=(9.0, 9.0))
    later.day = date(2026, 11, 20)
    run.results[later.session] = later
    run.save(tmp_path / "run.json")
    again = Run.load(tmp_path / "run.json", "default")
    assert words(again.results.values()).count("**no**") == 1
    assert "2026-11-19, 2026-11-20" in spark_section(again, picture=PICTURE)


def test_a_run_has_a_page_and_a_plot(tmp_path):
    run = run_of(on_the_edge())
    section = spark_section(run, picture=PICTURE)
    assert section.startswith("# Spark\n")
    assert "| 1,000,000 | by day | cold | 0.200 / 1.00 |" in section
    draw_spark(run, tmp_path / "p.svg")
    assert "delta-spark" in (tmp_path / "p.svg").read_text()


def test_separate_executors_have_a_column_of_their_own():
    results = on_the_edge()
    on_cluster = result(OURS, "merge", TABLES.deleted, merge=(9.0, 9.0))
    theirs = result(DELTA, "merge", TABLES.deleted, merge=(9.0, 3.0))
    for found in (on_cluster, theirs):
        found.session = Session(
            engine=found.session.engine, workload="merge", spec=TABLES.deleted, master=CLUSTER
        )
    section = spark_section(run_of([*results, on_cluster, theirs]), picture=PICTURE)
    assert "1.30 (1.30 / 1.00 s) | 3.00 (9.00 / 3.00 s) | **no** |" in section


def test_a_quick_run_has_no_verdicts():
    section = spark_section(
        run_of([result(OURS, "append", TABLES.plain, append=(2.0, 1.0))], "quick"), picture=PICTURE
    )
    assert "limits are for other sizes" in section
    assert "| append | append | lazydelta on Spark | local[2] | 2.00 | 1.00 |" in section
