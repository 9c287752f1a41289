"""`lazydelta spark plan` and `lazydelta spark read` at work, in the session of these tests."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Table
from lazydelta.cli.spark_progress import peak_memory
from lazydelta.spark import described
from lazydelta.spark.spark_releases import IS_SPARK_4
from tests.cli.support import run
from tests.unit.changes.support import FeedTable


class Kept:
    """A session that ignores `stop`, so that it outlives the command."""

    def __init__(self, session):
        self._session = session
        self.settings = {}
        self.stopped = 0
        self.descriptions = []

    def __getattr__(self, name):
        return getattr(self._session, name)

    def addTag(self, tag):
        context = self._session.sparkContext
        self.descriptions.append(tag)
        assert context.getLocalProperty("spark.job.description") is None
        self._session.addTag(tag)

    def stop(self):
        self.stopped += 1


@pytest.fixture
def session(spark, monkeypatch):
    kept = Kept(spark)

    def start(*, cores, conf):
        kept.settings = dict(conf)
        found = conf.get("spark.lazydelta.storageOptionsFile")
        if found is not None:
            assert Path(found).stat().st_mode & 0o077 == 0, "others could read it"
        return kept

    monkeypatch.setattr("lazydelta.spark.local_session", start)
    yield kept
    assert kept.stopped == 1


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = FeedTable(
        tmp_path_factory.mktemp("cli"), schema={"id": "long", "day": "date"}, partition_by=["day"]
    )
    for number in range(4):
        ids = pa.table({"id": pa.array(range(number * 5, number * 5 + 5), pa.int64())})
        made.commit(made.add(f"f{number}", ids, values={"day": f"2026-01-0{number + 1}"}))
    return made.directory


def test_plan_reports_replay_files_and_times(session, table):
    result = run("spark", "plan", table, "--where", "day > '2026-01-02'", "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["version"] == 3
    assert report["replay"]["by"] == "this process"
    assert "threshold" in report["replay"]["reason"]
    assert report["files"]["after"] == 2
    assert report["files"]["bytes"] == sum((table / name).stat().st_size for name in ("f2", "f3"))
    assert list(report["seconds"]) == ["start_spark", "load_snapshot", "replay_and_skip"]
    assert report["peak_driver_memory"]["python"] > 1 << 20
    if IS_SPARK_4:  # in 3.5 the context has the tags, not the session
        assert session.descriptions == [
            "lazydelta: loading the snapshot",
            "lazydelta: replaying the log and skipping files",
        ]


def test_plan_by_executors_finds_the_same_files(session, table, spark):
    key = "spark.lazydelta.distributedLogReplay.fileThreshold"
    spark.conf.set(key, "0")
    try:
        result = run("spark", "plan", table, "--version", 2)
    finally:
        spark.conf.unset(key)
    report = dict(line.split("\t") for line in result.stdout.splitlines())
    assert report["replay.by"] == "executors"
    assert report["files.after"] == "3"


def test_read_prints_rows_and_reports_its_cost(session, table):
    result = run("spark", "read", table, "--where", "id >= 12", "--columns", "id", "--json")
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(row["id"] for row in rows) == list(range(12, 20))
    for word in ("path", "reason", "start spark", "rows", "jvm"):
        assert word in result.stderr


def test_read_lets_executors_write_parquet(session, table, tmp_path):
    out = tmp_path / "out"
    options = ["--storage-option", "secret_key=hush-hush"]
    result = run("spark", "read", table, "--parquet", out, *options, "--path", "arrow")
    assert result.exit_code == 0, result.stderr
    found = pq.read_table(out).sort_by("id").to_pylist()
    assert found == Table.open(table).scan().to_arrow().sort_by("id").to_pylist()
    assert result.stdout == ""
    assert not Path(session.settings["spark.lazydelta.storageOptionsFile"]).exists()
    assert "hush-hush" not in result.stderr


def test_jobs_have_a_description(spark):
    context = spark.sparkContext
    tags = spark.getTags if IS_SPARK_4 else context.getJobTags
    with described(spark, "a, b"):
        assert context.getLocalProperty("spark.job.description") == "a, b"
        assert set(tags()) == {"a  b"}
        with described(spark, "inner"):
            pass
        assert context.getLocalProperty("spark.job.description") == "a, b"
    assert context.getLocalProperty("spark.job.description") is None
    assert set(tags()) == set()


def test_the_memory_of_the_driver_is_that_of_both_its_processes(spark):
    if not Path("/proc/self/status").exists():
        assert peak_memory() == {"python": None, "jvm": None}
        return
    found = peak_memory()
    assert found["jvm"] > 100 << 20
    assert found["python"] > 10 << 20
