"""A damaged checkpoint is read round where the plan meets the damage, and else fails in our words."""

from __future__ import annotations

import json
import logging

import pytest

import lazydelta.spark as executors
from lazydelta import Table
from lazydelta.errors import LogCorruptError
from lazydelta.testing import TableBuilder

COMMITS = ["+a +b +c", "-a +d", "+e -b +b#v1", "+f +g", "-d +a", "+h"]
LIVE = ["a", "b", "c", "e", "f", "g", "h"]
AT = 3


@pytest.fixture
def distributed(spark):
    session = spark.newSession()
    session.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
    return session


def build(place, kind="classic", *, older=False, **options):
    """Make a log with a checkpoint, and of older versions their commits or a checkpoint.

    The checksum tells protocol and metadata, so that nobody has looked at the checkpoint before.
    """
    table = TableBuilder(place)
    for line in COMMITS:
        table.commit(line)
    if older:
        table.checkpoint(version=1)
    table.checkpoint(kind, version=AT, **options)
    if older:
        table.clean_up(2)
    return table.crc()


def checkpoint_name(table):
    return [name for name in table.names() if name.startswith(f"{AT:020d}.checkpoint")][-1]


def cut(table, name):
    table.write(name, table.read(name)[:-9])


def paths_of(frame):
    return sorted(row.path for row in frame.select("path").collect())


@pytest.mark.parametrize("older", [False, True], ids=["commits", "an-older-checkpoint"])
@pytest.mark.parametrize("kind", ["classic", "v2-json"])
def test_it_gives_way(distributed, tmp_path, caplog, kind, older):
    table = build(tmp_path, kind, older=older, parts=1)
    cut(table, checkpoint_name(table))
    snapshot = Table.open(tmp_path).snapshot()
    assert snapshot.segment.floor == AT
    with caplog.at_level(logging.WARNING):
        files = executors.live_files(distributed, snapshot)
    assert "reading round a damaged checkpoint" in caplog.text
    assert paths_of(files) == LIVE
    vectors = files.where("deletionVector IS NOT NULL")
    assert paths_of(vectors) == ["b"]


def test_a_sidecar_that_the_plan_looks_at_is_missing(distributed, tmp_path):
    table = build(tmp_path, "v2-json", parts=1)
    table.delete(table.sidecars()[0])
    files = executors.distributed_log_replay(distributed, Table.open(tmp_path).snapshot())
    assert paths_of(files) == LIVE


def test_a_sidecar_that_only_a_task_looks_at_is_missing(distributed, tmp_path):
    table = build(tmp_path, "v2-json", parts=2)
    lines = map(json.loads, table.read(checkpoint_name(table)).splitlines())
    *_, gone = [line["sidecar"]["path"] for line in lines if "sidecar" in line]
    table.delete(f"_sidecars/{gone}")
    files = executors.distributed_log_replay(distributed, Table.open(tmp_path).snapshot())
    with pytest.raises(Exception, match=f"LogCorruptError: [^\n]*{gone}"):
        files.collect()


def test_there_is_no_other_way(distributed, tmp_path):
    table = build(tmp_path)
    table.clean_up(AT + 1)
    name = checkpoint_name(table)
    cut(table, name)
    snapshot = Table.open(tmp_path).snapshot()
    for work in (executors.live_files, executors.distributed_log_replay):
        with pytest.raises(LogCorruptError, match=name) as caught:
            work(distributed, snapshot)
        assert caught.value.version == AT


def test_a_new_checkpoint_does_without_it(distributed, tmp_path):
    table = build(tmp_path)
    cut(table, checkpoint_name(table))
    made = executors.checkpoint(distributed, tmp_path)
    assert (made.version, made.is_new, made.adds) == (5, True, len(LIVE))
    snapshot = Table.open(tmp_path).snapshot()
    assert snapshot.segment.floor == snapshot.version == 5
    assert sorted(file.path for file in snapshot.scan().files()) == LIVE
