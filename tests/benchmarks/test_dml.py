"""Measuring DELETE and MERGE: a run checks its results, writes its page, and judges its samples."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from benchmarks import dml_tables
from benchmarks.dml_cases import FULL, TINY, cases_of
from benchmarks.dml_engines import Sample
from benchmarks.dml_report import dml_verdicts

CASES = list(cases_of(FULL).values())


@pytest.fixture
def dml(tmp_path, monkeypatch):
    """The command, with its cache in a temporary directory."""
    pytest.importorskip("deltalake")
    module = pytest.importorskip("benchmarks.dml", exc_type=ImportError)
    for place in (module, dml_tables):
        monkeypatch.setattr(place, "CACHE", tmp_path)
    monkeypatch.setattr("benchmarks.generate.CACHE", tmp_path)
    monkeypatch.setattr("benchmarks.spec.CACHE", tmp_path)
    monkeypatch.setattr(dml_tables, "_SOURCES", tmp_path / "sources")
    return module


@pytest.mark.long
def test_a_run_measures_every_engine_and_writes_the_page(dml, tmp_path, capsys):
    docs = tmp_path / "docs"
    chosen = ["--case", "delete_rows", "--case", "suite_delete"]
    assert dml.main(["--scale", "tiny", *chosen, "--docs", str(docs)]) == 0
    printed = capsys.readouterr().out
    assert "| DELETE of one row from each of 4 files | deltalake |" in printed
    assert "| delete, files 0.05, matched 0.05, not matched 0 | deltalake streamed |" in printed
    assert (docs / "changing-rows.md").read_text().startswith("# Changing rows\n")
    assert (docs / "img" / "benchmarks-dml.svg").exists()


def test_a_wrong_result_is_a_failure(dml, monkeypatch, capsys):
    real = dml.case_data

    def wrong(case):
        data = real(case)
        return dml_tables.CaseData(
            table=data.table, source=data.source, expected={"deleted": 5}, rows=data.rows
        )

    monkeypatch.setattr(dml, "case_data", wrong)
    options = ["--scale", "tiny", "--case", "delete_rows", "--engine", "lazydelta"]
    assert dml.main(options) == 1
    assert "deleted: 4, expected 5" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["merge_scattered", "merge_clustered", "suite_upsert_0.05_0.1_0"])
def test_a_source_has_the_rows_it_is_said_to_have(dml, name):
    case = cases_of(TINY)[name]
    data = dml_tables.case_data(case)
    source = pq.read_table(data.source)
    table = dml_tables._source(case.table, case.source, case.verb.keys)
    assert source.equals(table.cast(source.schema))
    keys = source.select(list(case.verb.keys))
    assert keys.group_by(keys.column_names).aggregate([]).num_rows == source.num_rows
    rows = pq.read_table([str(path) for path in data.table.glob("*.parquet")])
    found = keys.join(rows.select(keys.column_names), keys.column_names, join_type="inner")
    assert found.num_rows == data.expected["updated"] > 0


def test_the_suite_has_the_sixteen_cases_of_delta_spark():
    assert sum(case.name.startswith("suite_") for case in CASES) == 16


def _sample(seconds=1.0, rss=100, **more):
    return Sample(seconds=seconds, base_rss=50 << 20, peak_rss=rss << 20, **more)


def _verdicts(samples):
    found = [case for case in CASES if case.name in samples]
    return {verdict.what: verdict for verdict in dml_verdicts(found, samples)}


def test_the_quicker_way_of_the_peer_counts_and_failed_runs_do_not():
    samples = {
        "lazydelta": [_sample(3.0), _sample(1.0)],
        "deltalake": [_sample(4.0), _sample(0.1, error="wrong")],
        "deltalake streamed": [_sample(2.0)],
    }
    (time, memory) = _verdicts({"merge_scattered": samples}).values()
    assert (time.ratio, time.median_ratio, time.word) == (0.5, 1.0, "yes")
    assert memory.word == "yes"


def test_memory_is_our_worst_against_the_budget_and_the_imports():
    samples = {"merge_large_source": {"lazydelta": [_sample(rss=100), _sample(rss=563)]}}
    assert [verdict.word for verdict in _verdicts(samples).values()] == ["**no**"]
    samples = {"merge_large_source": {"lazydelta": [_sample(rss=562)]}}
    assert [verdict.word for verdict in _verdicts(samples).values()] == ["yes"]


def test_the_suite_is_judged_by_its_median_its_slowest_case_and_its_bytes():
    names = [case.name for case in CASES if case.name.startswith("suite_")][:3]
    samples = {
        name: {
            "lazydelta": [_sample(seconds, data_bytes=10)],
            "deltalake": [_sample(1.0, data_bytes=100)],
        }
        for name, seconds in zip(names, (0.5, 0.9, 3.0), strict=True)
    }
    verdicts = _verdicts(samples)
    assert [(verdict.ratio, verdict.word) for verdict in verdicts.values()] == [
        (0.9, "yes"),
        (3.0, "**no**"),
        (0.1, "yes"),
    ]


def test_what_did_not_run_has_no_verdict():
    samples = {"delete_rows": {"lazydelta": [_sample()]}}
    assert [verdict.word for verdict in _verdicts(samples).values()] == ["not measured", "yes"]
