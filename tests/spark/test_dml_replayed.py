"""Verbs on tables whose log executors replay: the driver receives the files that change only."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta.errors import InternalError, MultipleMatchesError
from lazydelta.spark import planner
from lazydelta.spark.arrow_conversion import spark_schema
from lazydelta.spark.dml import target_candidates as candidates
from lazydelta.spark.spark_releases import frame_of_arrow
from tests.spark.dml_tables import KINDS, SCHEMA, VECTORS, Twins, random_rows


@pytest.fixture
def session(spark, monkeypatch):
    """A session in which executors replay every log; the driver lists no add."""

    def never(*_):
        raise AssertionError("the driver lists the files")

    monkeypatch.setattr(planner, "live_adds", never)
    monkeypatch.setattr(candidates, "split_by_statistics", never)
    session = spark.newSession()
    session.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
    session.conf.set("spark.lazydelta.distributedLogReplay.numPartitions", "2")
    return session


@pytest.fixture
def received(monkeypatch):
    """The paths of the files whose add actions the driver received."""
    paths = []
    target = candidates.ReplayedFiles._target

    def noted(self, files):
        found = target(self, files)
        paths.extend(found.adds.column("path").to_pylist())
        return found

    monkeypatch.setattr(candidates.ReplayedFiles, "_target", noted)
    return paths


@pytest.mark.parametrize(
    "kind",
    [
        "vectors-feed-partitioned",
        *(
            pytest.param(k, marks=pytest.mark.long)
            for k in KINDS
            if k != "vectors-feed-partitioned"
        ),
    ],
)
def test_rows_are_those_of_one_process(session, tmp_path, kind):
    twins = Twins(tmp_path, kind, random_rows(kind, 60))
    where = "id % 7 = 3 OR p = 'b'"
    twins.check(executors.delete(session, twins.spark, where), twins.table.delete(where))
    assigned = {"v": "v + 1", "st.x": "id"}
    found = executors.update(session, twins.spark, assigned, "id > 100 OR id IS NULL")
    twins.check(found, twins.table.update(assigned, "id > 100 OR id IS NULL"))
    rows = list({row["id"]: row for row in random_rows(f"{kind} source", 50)}.values())
    source = pa.Table.from_pylist(rows, SCHEMA)

    def merged(merge):
        return (
            merge.when_matched_update({"p": "s.p", "v": "s.v"}, "t.id % 2 = 0")
            .when_matched_delete()
            .when_not_matched_insert("*")
            .when_not_matched_by_source_update({"v": "99"}, "t.id > 150")
            .execute()
        )

    frame = frame_of_arrow(session, source, spark_schema(SCHEMA))
    on_spark = merged(executors.merge(session, twins.spark, frame, "t.id = s.id"))
    twins.check(on_spark, merged(twins.table.merge(source, "t.id = s.id")))
    twins.check(executors.delete(session, twins.spark), twins.table.delete())


@pytest.fixture
def files(tmp_path):
    """Ten files of ten rows, with ids in order; half of them in a checkpoint."""
    for start in range(0, 100, 10):
        ids = [*range(start, start + 10)]
        ld.write(tmp_path, {"id": ids, "half": [n // 50 for n in ids]},
            partition_by=["half"], properties={} if start else VECTORS)  # fmt: skip
        if start == 50:
            ld.Table.open(tmp_path).checkpoint()
    return {int(f.stats["minValues"]["id"]): f.path for f in ld.Table.open(tmp_path).scan().files()}


def test_the_driver_receives_the_add_actions_of_changed_files_only(
    session, tmp_path, files, received
):
    result = executors.delete(session, tmp_path, "id IN (33, 34, 71)")
    assert result.metrics["numDeletedRows"] == 3
    assert sorted(received) == sorted([files[30], files[70]])
    received.clear()
    source = session.sql("SELECT id, CAST(7 AS BIGINT) half FROM VALUES 55L, 200L AS s(id)")
    merge = executors.merge(session, tmp_path, source, "t.id = s.id")
    result = merge.when_matched_update("*").when_not_matched_insert("*").execute()
    assert result.metrics["numTargetRowsUpdated"] == result.metrics["numTargetRowsInserted"] == 1
    assert received == [files[50]]
    received.clear()
    assert (
        executors.update(session, tmp_path, {"id": "1"}, "id % 1000 = 999").version
        == result.version
    )
    assert not received


def test_files_that_statistics_decide_are_not_opened(session, tmp_path, files, received):
    for start in range(50, 100, 10):
        tmp_path.joinpath(files[start]).unlink()
    result = executors.delete(session, tmp_path, "half = 1")
    assert (result.metrics["numDeletedRows"], result.files_removed) == (50, 5)
    assert sorted(received) == sorted(files[start] for start in range(50, 100, 10))
    assert ld.Table.open(tmp_path).count() == 50


def test_conditions_of_spark_and_several_matches(session, tmp_path, files):
    deleted = executors.delete(session, tmp_path, "bit_count(id) = 6")
    expected = sum(n.bit_count() == 6 for n in range(100))
    assert deleted.metrics["numDeletedRows"] == expected
    source = session.sql("SELECT 12L id, n FROM VALUES 1, 2 AS s(n)")
    merge = executors.merge(session, tmp_path, source, "t.id = s.id").when_matched_update(
        {"id": "0"}
    )
    assert merge.explain().files == 10
    with pytest.raises(MultipleMatchesError, match=r"t\.id = 12"):
        merge.execute()


def test_two_files_with_one_hash_are_an_error_before_the_commit(
    session, tmp_path, files, monkeypatch
):
    monkeypatch.setattr(candidates.f, "xxhash64", lambda _: candidates.f.lit(1).cast("long"))
    with pytest.raises(InternalError, match="hash of their path"):
        executors.delete(session, tmp_path, "id % 50 = 33")
    assert ld.Table.open(tmp_path).version == 9
