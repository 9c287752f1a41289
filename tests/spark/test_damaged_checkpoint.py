"""Damage that planning detects has a fallback; damage in a task fails the job with our error."""

from __future__ import annotations

import json
import logging

import pytest

import lazydelta.spark as executors
from lazydelta import Table
from lazydelta.errors import LogCorruptError
from tests.bad_input.test_checkpoints import AT, LIVE, build, checkpoint_names

PATHS = [path.partition("#")[0] for path in LIVE]


@pytest.fixture
def distributed(spark):
    session = spark.newSession()
    session.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
    return session


def built(place, kind="classic", *, older=False, **options):
    """Write a log with a checkpoint, and with older commits or an older checkpoint.

    The checksum has protocol and metadata, so loading does not read the checkpoint.
    """
    return build(place, kind, older=older, cleaned_up=older, **options).crc()


def cut(table, name):
    table.write(name, table.read(name)[:-9])


def paths_of(frame):
    return sorted(row.path for row in frame.select("path").collect())


@pytest.mark.parametrize("older", [False, True], ids=["commits", "an-older-checkpoint"])
@pytest.mark.parametrize("kind", ["classic", "v2-json"])
def test_it_falls_back(distributed, tmp_path, caplog, kind, older):
    table = built(tmp_path, kind, older=older, parts=1)
    cut(table, checkpoint_names(table)[-1])
    snapshot = Table.open(tmp_path).snapshot()
    assert snapshot.segment.base_version == AT
    with caplog.at_level(logging.WARNING):
        files = executors.live_files(distributed, snapshot)
    assert "ignoring a damaged checkpoint" in caplog.text
    assert paths_of(files) == PATHS
    vectors = files.where("deletionVector IS NOT NULL")
    assert paths_of(vectors) == ["b"]


def test_a_missing_sidecar_that_planning_reads(distributed, tmp_path):
    table = built(tmp_path, "v2-json", parts=1)
    table.delete(table.sidecars()[0])
    files = executors.distributed_log_replay(distributed, Table.open(tmp_path).snapshot())
    assert paths_of(files) == PATHS


def test_a_missing_sidecar_that_only_a_task_reads(distributed, tmp_path):
    table = built(tmp_path, "v2-json", parts=2)
    lines = map(json.loads, table.read(checkpoint_names(table)[-1]).splitlines())
    *_, gone = [line["sidecar"]["path"] for line in lines if "sidecar" in line]
    table.delete(f"_sidecars/{gone}")
    files = executors.distributed_log_replay(distributed, Table.open(tmp_path).snapshot())
    with pytest.raises(Exception, match=f"LogCorruptError: [^\n]*{gone}"):
        files.collect()


def test_without_a_fallback_it_is_an_error(distributed, tmp_path):
    table = built(tmp_path)
    table.clean_up(AT + 1)
    name = checkpoint_names(table)[-1]
    cut(table, name)
    snapshot = Table.open(tmp_path).snapshot()
    for work in (executors.live_files, executors.distributed_log_replay):
        with pytest.raises(LogCorruptError, match=name) as caught:
            work(distributed, snapshot)
        assert caught.value.version == AT


def test_a_new_checkpoint_ignores_it(distributed, tmp_path):
    table = built(tmp_path)
    cut(table, checkpoint_names(table)[-1])
    made = executors.checkpoint(distributed, tmp_path)
    assert (made.version, made.is_new, made.adds) == (5, True, len(LIVE))
    snapshot = Table.open(tmp_path).snapshot()
    assert snapshot.segment.base_version == snapshot.version == 5
    assert sorted(file.path for file in snapshot.scan().files()) == PATHS
