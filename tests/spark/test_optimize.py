"""OPTIMIZE and REORG on Spark: the files, rows and metrics are those of one process."""

from __future__ import annotations

import pytest

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta.errors import ConfigError, InternalError, PredicateError
from lazydelta.spark import jobs, tuning
from lazydelta.spark.maintenance import bin_workers
from lazydelta.spark.maintenance.bin_workers import ExecutorWorkers
from tests.spark.maintained_tables import KINDS, Twins, create, files_of

LONG_KINDS = [
    kind if kind == "vectors-tracked" else pytest.param(kind, marks=pytest.mark.long)
    for kind in KINDS
]
"""The same kinds, of which one is quick enough for every run."""


@pytest.fixture
def session(spark):
    """A session in which executors replay every log."""
    session = spark.newSession()
    session.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
    session.conf.set("spark.lazydelta.distributedLogReplay.numPartitions", "2")
    return session


@pytest.mark.parametrize("kind", KINDS)
def test_compacted_files_are_those_of_one_process(spark, tmp_path, kind):
    twins = Twins(tmp_path, kind)
    found = executors.optimize(spark, twins.spark)
    here = twins.table.optimize()
    assert found.metrics == here.metrics
    assert found.versions == here.versions
    assert files_of(twins.spark) == files_of(twins.local)
    twins.check()
    assert not executors.optimize(spark, twins.spark).versions


@pytest.mark.parametrize("kind", LONG_KINDS)
def test_executors_select_the_files_of_one_process(session, tmp_path, monkeypatch, kind):
    twins = Twins(tmp_path, kind)
    limit = sum(f.size for f in twins.table.scan().files()) // 2
    expected = [twins.table.optimize(**options).metrics for options in ({"max_bytes": limit}, {})]
    monkeypatch.setattr(bin_workers.LocalWorkers, "select", never)
    monkeypatch.setattr(tuning, "SELECTED_FILES", 4)  # several tasks pack bins
    for options, metrics in zip(({"max_bytes": limit}, {}), expected, strict=True):
        found = executors.optimize(session, twins.spark, **options)
        assert found.metrics == metrics
    assert expected[0]["numRemovedFiles"] + expected[1]["numRemovedFiles"]
    twins.check()


def never(*_):
    raise AssertionError("the driver lists the files")


@pytest.mark.parametrize("replayed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_shuffle_clusters_as_one_process(session, spark, tmp_path, monkeypatch, replayed):
    monkeypatch.setattr(tuning, "CLUSTERED_IN_ONE_TASK", 0)
    twins = Twins(tmp_path, cluster_by=("x", "id"))
    target = sum(f.size for f in twins.table.scan().files()) // 5
    chosen = session if replayed else spark
    found = executors.optimize(chosen, twins.spark, target_size=target)
    here = twins.table.optimize(target_size=target)
    for name in ("numRemovedFiles", "numRemovedBytes", "numDeletionVectorsRemoved"):
        assert found.metrics[name] == here.metrics[name] > 0
    assert found.metrics["numAddedFiles"] >= 4
    assert found.quality["before"] == here.quality["before"]
    assert max(found.quality["after"].values()) < found.metrics["numAddedFiles"]
    files = list(ld.Table.open(twins.spark).scan().files())
    assert {file.clustering_provider for file in files} == {"liquid"}
    assert len({file.tags["ZCUBE_ID"] for file in files}) == 1
    twins.check()
    assert not executors.optimize(chosen, twins.spark).versions
    assert not ld.Table.open(twins.spark).optimize().versions


run_task = jobs._run


def lose_rows(function, *arguments):
    """Run a task, and lose a batch of the rows that it sends to their ranges."""
    batches = list(run_task(function, *arguments))
    is_scatter = any(getattr(one, "__name__", "") == "scatter" for one in arguments)
    yield from batches[1:] if is_scatter else batches


def test_rows_that_a_shuffle_loses_are_not_committed(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "CLUSTERED_IN_ONE_TASK", 0)
    monkeypatch.setattr(jobs, "_run", lose_rows)
    table = create(tmp_path / "t")
    version, files = table.version, {file.path for file in table.scan().files()}
    with pytest.raises(InternalError, match=r"different rows: -\d+"):
        executors.optimize(spark, tmp_path / "t", z_order="x")
    assert table.version == version
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} == files


@pytest.mark.long  # it sorts the rows of three partitions
def test_each_partition_of_a_z_order_is_a_bin(session, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "CLUSTERED_IN_ONE_TASK", 2500)
    twins = Twins(tmp_path, "mapped-vectors-partitioned")
    found = executors.optimize(session, twins.spark, z_order=["x", "a-b"])
    here = twins.table.optimize(z_order=["x", "a-b"])
    assert found.quality == here.quality
    assert files_of(twins.spark) == files_of(twins.local)
    (history,), (expected,) = (ld.Table.open(u).history(1) for u in (twins.spark, twins.local))
    assert history.raw["operationParameters"] == expected.raw["operationParameters"]
    assert history.raw["operationParameters"]["zOrderBy"].startswith('["x",')
    twins.check()


@pytest.mark.parametrize("kind", LONG_KINDS[1:])
def test_purged_files_are_those_of_one_process(spark, session, tmp_path, kind):
    twins = Twins(tmp_path, kind)
    for url in (twins.spark, twins.local):
        table = ld.Table.open(url)
        if kind.startswith("mapped"):
            table.alter.drop_column("x")
            table.write({"id": [9000], "p": ["c"], "a-b": ["new"]})
    expected = twins.table.purge()
    assert (
        executors.purge(session, twins.spark, dry_run=True).metrics["numRemovedFiles"]
        == (expected.metrics["numRemovedFiles"])
    )
    assert executors.purge(session, twins.spark).metrics == expected.metrics
    assert expected.metrics["numDeletionVectorsRemoved"]
    assert files_of(twins.spark) == files_of(twins.local)
    twins.check()
    assert not executors.purge(spark, twins.spark).versions


def test_concurrent_appends_and_deletes_cost_only_the_bins_that_they_touch(
    spark, tmp_path, monkeypatch
):
    table = create(tmp_path / "t", "partitioned")
    rewrite, calls = ExecutorWorkers.rewrite, []

    def race(self, rewriter, snapshot, bins, files):
        done = list(rewrite(self, rewriter, snapshot, bins, files))
        calls.append(len(bins))
        if len(calls) == 1:
            table.write({"id": [8000], "p": ["b"]})
            assert table.delete("id = 10").metrics["numDeletedRows"] == 1  # its p is null
        return iter(done)

    monkeypatch.setattr(ExecutorWorkers, "rewrite", race)
    rows = table.count()
    result = executors.optimize(spark, tmp_path / "t")
    assert calls == [3, 1]
    assert len(result.versions) == 2
    assert table.count() == rows
    assert not table.scan("id = 10").to_arrow().num_rows


def test_partitions_and_batches(spark, tmp_path):
    table = create(tmp_path / "t", "partitioned")
    with pytest.raises(PredicateError, match="non-partition column"):
        executors.optimize(spark, tmp_path / "t", "id = 1")
    with pytest.raises(ConfigError, match="no clustering columns"):
        executors.optimize(spark, tmp_path / "t", cluster=True)
    planned = executors.optimize(spark, tmp_path / "t", dry_run=True)
    assert planned.dry_run
    assert planned.metrics["numRemovedFiles"] == 18
    before = table.version
    one = executors.optimize(spark, tmp_path / "t", "p = 'a'", commit_metadata={"by": "test"})
    assert one.versions == (before + 1,)
    rest = executors.optimize(spark, tmp_path / "t", batch_bytes=1)
    assert rest.versions == (before + 2, before + 3)
    assert one.metrics["numRemovedFiles"] == 6
    assert table.history(1)[0].operation == "OPTIMIZE"
