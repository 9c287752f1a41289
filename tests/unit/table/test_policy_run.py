"""Runs of maintenance policies: order, guards, dry runs, and reports that are true."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
from lazydelta.errors import ConfigError, StoreError
from lazydelta.store.local_store import LocalStore
from lazydelta.testing import TableBuilder
from tests.aged_tables import backdate, files_of

QUIET = ld.Config(write_checkpoints=False)
STEPS = ["check", "optimize", "vacuum", "properties", "checkpoint", "log_cleanup"]
ALL = {"optimize": {}, "vacuum": {"dry_run_default": False}, "checkpoints": {}}
DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "maintenance.md"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A table of seven versions, older than any retention: four live files, two dead ones."""
    table = ld.Table.open(tmp_path_factory.mktemp("template"), config=QUIET)
    for number in range(6):
        table.write(pa.table({"id": [number], "day": ["a"]}), partition_by="day")
    table.delete("id < 2")
    table.checkpoint(3)
    backdate(table, hours=24 * 60)
    return Path(table.url)


@pytest.fixture
def aged(template):
    """A function that copies this table to a directory, with the times of its files."""
    return lambda directory: ld.Table.open(shutil.copytree(template, directory), config=QUIET)


@pytest.fixture
def table(aged, tmp_path):
    return aged(tmp_path / "t")


def everything(table):
    root = Path(table.url)
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def statuses(report):
    (table,) = report.tables
    return {step.step: step.status for step in table.steps}


def maintain(table, **policy):
    return ld.maintain({"table_uri": table.url, **policy}, config=QUIET)


def test_all_steps_run_in_order(table):
    rows = table.to_arrow().sort_by("id")
    before = files_of(table)
    seen = []
    report = ld.maintain(
        {"table_uri": table.url, **ALL, "checkpoints": {"log_retention": "40 days"}},
        config=QUIET,
        progress=lambda address, step: seen.append((address, step.step)),
    )
    assert report.ok
    assert seen == [(table.url, step) for step in STEPS]
    assert set(statuses(report).values()) == {"done"}
    (done,) = report.tables
    assert done.step("optimize").result["metrics"]["numRemovedFiles"] == 4
    assert done.step("vacuum").result["files_deleted"] == len(before - files_of(table)) == 2
    assert done.step("properties").result == {"delta.logRetentionDuration": "interval 40 days"}
    assert table.metadata.configuration["delta.logRetentionDuration"] == "interval 40 days"
    assert done.step("checkpoint").result["version"] == table.snapshot().version
    assert done.step("log_cleanup").result["files_deleted"] > 0
    operations = [entry.operation for entry in reversed(table.history(4))]
    assert operations == ["OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES"]
    assert table.to_arrow().sort_by("id").equals(rows)
    json.dumps(report.to_dict())  # plain values only


def test_a_second_run_finds_nothing_to_do(table):
    maintain(table, **ALL)
    version = table.snapshot().version
    report = maintain(table, **ALL)
    assert report.ok
    assert table.snapshot().version == version
    (done,) = report.tables
    assert done.step("optimize").result["versions"] == ()
    assert done.step("vacuum").result["files_deleted"] == 0
    assert done.step("properties").status == "skipped"
    assert not done.step("checkpoint").result["is_new"]
    assert done.step("log_cleanup").result["files_deleted"] == 0
    assert done.step("log_cleanup").result["dry_run"] is False


def test_a_dry_run_changes_nothing_and_says_what_it_would_do(table):
    before = everything(table)
    policy = {"table_uri": table.url, **ALL, "checkpoints": {"log_retention": 24}}
    report = ld.maintain(policy, dry_run=True, config=QUIET)
    assert everything(table) == before
    (done,) = report.tables
    assert report.dry_run
    assert done.step("optimize").result["metrics"]["numRemovedFiles"] == 4
    assert done.step("vacuum").result["files_to_delete"] == 2
    assert done.step("properties").result == {"delta.logRetentionDuration": "interval 1 days"}
    assert done.step("checkpoint").result == {"version": 6, "is_new": True}
    assert done.step("log_cleanup").reason == "it depends on properties that the run would change"
    report = ld.maintain({"table_uri": table.url, **ALL}, dry_run=True, config=QUIET)
    assert report.tables[0].step("log_cleanup").result["files_to_delete"] > 0
    assert everything(table) == before


def test_vacuum_only_reports_unless_the_policy_says_otherwise(table):
    before = files_of(table)
    report = maintain(table, vacuum={}, optimize={"enabled": False})
    (done,) = report.tables
    vacuum = done.step("vacuum")
    assert (vacuum.status, vacuum.reason) == ("dry_run", "vacuum.dry_run_default is true")
    assert vacuum.result["files_to_delete"] == 2
    assert files_of(table) == before
    assert done.step("optimize").reason == "optimize.enabled is false"
    assert done.step("checkpoint").reason == "the policy has no section checkpoints"


SHORT = {"dry_run_default": False, "retention_period": "0 hours"}
UNCHECKED = {**SHORT, "enforce_retention_duration": False}
APPENDS = {"enabled": False, "concurrency_assumption": "append_only"}


@pytest.mark.parametrize(
    ("vacuum", "optimize", "missing"),
    [
        (SHORT, APPENDS, "set vacuum.enforce_retention_duration to false if"),
        (UNCHECKED, {}, "set optimize.concurrency_assumption to append_only if"),
        (UNCHECKED, None, "set optimize.concurrency_assumption to append_only if"),
        ({**UNCHECKED, "mode": "full"}, APPENDS, "set vacuum.mode to lite if"),
    ],
)
def test_a_short_retention_is_refused_before_anything_changes(table, vacuum, optimize, missing):
    before = everything(table)
    sections = {"vacuum": vacuum, "optimize": optimize, "checkpoints": {}}
    report = maintain(
        table, **{name: value for name, value in sections.items() if value is not None}
    )
    (done,) = report.tables
    check = done.step("check")
    assert (check.status, check.error) == ("failed", "ConfigError")
    assert "0:00:00 is shorter than delta.deletedFileRetentionDuration (7 days" in check.reason
    assert missing in check.reason
    assert done.step("vacuum").reason == "the step check failed"
    assert not report.ok
    assert everything(table) == before


def test_a_short_retention_is_allowed_for_appends_only(table):
    report = maintain(table, vacuum=UNCHECKED, optimize={"concurrency_assumption": "append_only"})
    assert report.ok
    # The two dead files, and those that OPTIMIZE replaced just now.
    assert report.tables[0].step("vacuum").result["files_deleted"] == 6
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3, 4, 5]


def test_kept_versions_keep_their_files_and_their_log(table):
    rows = table.snapshot(5).to_arrow().sort_by("id")
    vacuum = {"dry_run_default": False, "keep_versions": [6, 5]}
    done = maintain(table, vacuum=vacuum, checkpoints={}).tables[0]
    assert done.step("vacuum").result["files_deleted"] == 0
    cleanup = done.step("log_cleanup")
    assert cleanup.status == "skipped"
    assert cleanup.reason == "versions before 6 would be lost, and vacuum.keep_versions has 5"
    assert table.snapshot(5).to_arrow().sort_by("id").equals(rows)
    vacuum["keep_versions"] = [6]
    done = maintain(table, vacuum=vacuum, checkpoints={}).tables[0]
    assert done.step("log_cleanup").result["files_deleted"] > 0
    assert sorted(table.snapshot(6).to_arrow()["id"].to_pylist()) == [2, 3, 4, 5]


def test_a_kept_version_that_is_gone_is_refused_before_anything_changes(table):
    before = everything(table)
    report = maintain(table, **{**ALL, "vacuum": {"keep_versions": [99]}})
    assert report.tables[0].step("check").error == "VersionNotCommittedError"
    assert everything(table) == before


def test_log_cleanup_obeys_the_table_and_the_policy(table):
    report = maintain(table, checkpoints={"run_cleanup_metadata": False})
    reason = report.tables[0].step("log_cleanup").reason
    assert reason == "checkpoints.run_cleanup_metadata is false"
    report = maintain(table, checkpoints={"enable_expired_log_cleanup": False})
    assert table.metadata.configuration["delta.enableExpiredLogCleanup"] == "false"
    reason = report.tables[0].step("log_cleanup").reason
    assert reason == "delta.enableExpiredLogCleanup of the table is false"


def test_commits_of_a_run_do_not_clean_up_the_log(table):
    table.alter.set_properties({"delta.checkpointInterval": "1"})
    log = Path(table.url) / "_delta_log"
    before = {path.name for path in log.iterdir()}
    cleaning = replace(QUIET, clean_up_log=True)
    report = ld.maintain({"table_uri": table.url, "optimize": {}}, config=cleaning)
    assert report.tables[0].step("optimize").result["versions"] == (8,)
    assert before <= {path.name for path in log.iterdir()}
    ld.Table.open(table.url, config=cleaning).write(pa.table({"id": [9], "day": ["a"]}))
    assert not before <= {path.name for path in log.iterdir()}, "the test is blind"


def test_a_log_retention_with_fractions_is_set_once(table):
    policy = {"checkpoints": {"log_retention": 999.1234567, "run_cleanup_metadata": False}}
    assert maintain(table, **policy).tables[0].step("properties").status == "done"
    assert maintain(table, **policy).tables[0].step("properties").status == "skipped"


def test_a_table_that_cannot_be_written_is_refused_also_by_a_dry_run(tmp_path):
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTheFuture"]}
    TableBuilder(tmp_path / "t", protocol=protocol).commit("+a")
    policy = {"table_uri": tmp_path / "t", "checkpoints": {}}
    check = ld.maintain(policy, dry_run=True).tables[0].step("check")
    assert (check.status, check.error) == ("failed", "UnsupportedFeatureError")


def test_a_failed_step_stops_its_table_and_no_other(aged, tmp_path):
    first, last = aged(tmp_path / "first"), aged(tmp_path / "last")
    policies = [
        {"table_uri": first.url, **ALL, "optimize": {"type": "zorder", "zorder_cols": ["nope"]}},
        {"table_uri": tmp_path / "none", **ALL},
        {"table_uri": last.url, **ALL, "optimize": {"partition_filters": [["day", "=", "a"]]}},
    ]
    before = everything(first)
    report = ld.maintain({"tables": policies}, config=QUIET)
    assert [table.ok for table in report.tables] == [False, False, True]
    broken, missing, good = report.tables
    optimize = broken.step("optimize")
    assert optimize.status == "failed"
    assert "nope" in optimize.reason
    assert [step.status for step in broken.steps[2:]] == ["skipped"] * 4
    assert broken.step("checkpoint").reason == "the step optimize failed"
    assert everything(first) == before
    assert missing.step("check").error == "TableNotFoundError"
    assert good.step("vacuum").result["files_deleted"] == 2


def test_files_that_the_store_does_not_delete_fail_the_step(table, monkeypatch):
    def refuse(self, paths):
        raise StoreError(paths[0], "no")

    monkeypatch.setattr(LocalStore, "delete", refuse)
    done = maintain(table, **ALL).tables[0]
    vacuum = done.step("vacuum")
    assert (vacuum.status, vacuum.reason) == ("failed", "2 files could not be deleted")
    assert vacuum.result["files_deleted"] == 0
    assert done.step("checkpoint").reason == "the step vacuum failed"
    cleanup = maintain(table, checkpoints={}).tables[0].step("log_cleanup")
    assert cleanup.status == "failed"
    assert re.fullmatch(r"\d+ log files could not be deleted", cleanup.reason)


def test_an_unexpected_error_is_reported_too(aged, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("https://a/t?sig=SECRET&x=1")

    monkeypatch.setattr(ld.Table, "optimize", fail)
    first, second = aged(tmp_path / "a"), aged(tmp_path / "b")
    policies = [{"table_uri": first.url, "optimize": {}}, {"table_uri": second.url, "vacuum": {}}]
    report = ld.maintain({"tables": policies})
    assert report.tables[0].step("optimize").error == "RuntimeError"
    assert "SECRET" not in json.dumps(report.to_dict())
    assert report.tables[1].ok


def test_options_of_the_writer_reach_the_files(table):
    optimize = {
        "writer_properties": {"compression": "ZSTD", "compression_level": 5},
        "session_state_limits": {"max_spill_size_bytes": 1 << 24},
    }
    maintain(table, optimize=optimize)
    (file,) = table.snapshot().scan().files()
    metadata = pq.read_metadata(Path(table.url) / file.path)
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_an_invalid_policy_opens_no_table(table):
    before = everything(table)
    policies = [{"table_uri": table.url, **ALL}, {"table_uri": table.url, "vacuum": {"mode": 1}}]
    with pytest.raises(ConfigError, match=r"tables\[1\]\.vacuum\.mode: must be one of lite, full"):
        ld.maintain({"tables": policies})
    assert everything(table) == before


@pytest.mark.parametrize("language", ["toml", "yaml", "json"])
def test_the_documented_policy_runs(aged, tmp_path, language):
    if language == "yaml":
        pytest.importorskip("yaml")
    text = DOCUMENT.read_text(encoding="utf-8")
    example = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1]
    table = aged(tmp_path / "trips")
    address = "s3://lake/trips"
    assert address in example
    (tmp_path / f"policy.{language}").write_text(example.replace(address, table.url))
    report = ld.maintain(tmp_path / f"policy.{language}")
    assert report.ok, report
    assert report.tables[0].step("vacuum").result["files_deleted"] == 2
