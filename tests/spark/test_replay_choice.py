"""Whether executors or this process replay the log, and that both return the same files."""

from __future__ import annotations

import json

import pytest

from lazydelta import Config, Table
from lazydelta.errors import ConfigError
from lazydelta.spark import explain_replay, live_files
from lazydelta.spark.conf import ReplaySettings, replay_settings
from lazydelta.spark.planner import choose_replay
from tests.builders import TableBuilder
from tests.contract.parity.test_live_files import LONG, LONG_LIVE, built
from tests.spark.test_replay import listed
from tests.support import memory_store

OURS = "spark.lazydelta.distributedLogReplay"
ALIAS = "spark.databricks.delta.v2.distributedLogReplay"


class Session:
    """A fake session that has only settings."""

    def __init__(self, settings):
        self.conf = settings


@pytest.mark.parametrize("prefix", [OURS, ALIAS])
def test_settings_of_a_session(prefix):
    settings = {
        f"{prefix}.enabled": "False",
        f"{prefix}.numPartitions": "7",
        f"{prefix}.fileThreshold": "0",
    }
    expected = ReplaySettings(enabled=False, num_partitions=7, file_threshold=0)
    assert replay_settings(Session(settings)) == expected


def test_defaults_and_our_own_name_first():
    assert replay_settings(Session({})) == ReplaySettings(
        enabled=True, num_partitions=50, file_threshold=10_000
    )
    both = {f"{OURS}.numPartitions": "3", f"{ALIAS}.numPartitions": "4"}
    assert replay_settings(Session(both)).num_partitions == 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("enabled", "yes", "must be true or false, not 'yes'"),
        ("numPartitions", "0", "must be an integer >= 1, not '0'"),
        ("fileThreshold", "-1", "must be an integer >= 0, not '-1'"),
    ],
)
def test_a_bad_setting_is_named(name, value, message):
    with pytest.raises(ConfigError, match=f"{ALIAS}.{name}: {message}"):
        replay_settings(Session({f"{ALIAS}.{name}": value}))


def snapshot_of(store):
    return Table(store, Config()).snapshot()


ESTIMATES = {
    "the-checksum": lambda table: table.checkpoint().crc(),
    "the-hint": lambda table: table.checkpoint().hint(),
    "a-footer": lambda table: table.checkpoint(),
    "footers-of-parts": lambda table: table.checkpoint("multipart", parts=3),
    "footers-of-sidecars": lambda table: table.checkpoint("v2-parquet", parts=3),
    "the-commits": lambda table: table,
}


@pytest.mark.parametrize("source", ESTIMATES)
def test_the_number_of_files_is_estimated_without_listing_them(source):
    store = memory_store()
    table = TableBuilder(store).commit(" ".join(f"+f{number:04d}" for number in range(3000)))
    ESTIMATES[source](table)
    choice = choose_replay(snapshot_of(store), ReplaySettings(file_threshold=500))
    assert 600 < choice.estimated_files < 9000
    assert choice.distributed
    assert "not below the threshold of 500" in choice.reason
    assert not choose_replay(snapshot_of(store), ReplaySettings(file_threshold=9000)).distributed
    off = choose_replay(snapshot_of(store), ReplaySettings(enabled=False, file_threshold=0))
    assert (off.distributed, off.reason) == (False, "disabled by the session")


def test_the_threshold_itself_is_large(spark):
    store = memory_store()
    TableBuilder(store).commit(" ".join(f"+f{number}" for number in range(10))).checkpoint().crc()
    snapshot = snapshot_of(store)
    assert choose_replay(snapshot, ReplaySettings(file_threshold=10)).distributed
    assert not choose_replay(snapshot, ReplaySettings(file_threshold=11)).distributed


def test_both_ways_give_the_same_files_and_columns(spark, tmp_path):
    built(tmp_path, LONG, "checkpoint-in-between")
    snapshot = Table.open(tmp_path).snapshot()
    key = f"{OURS}.fileThreshold"
    found = {}
    try:
        for threshold, by in (("0", "executors"), ("10000", "this process")):
            spark.conf.set(key, threshold)
            report = explain_replay(spark, snapshot)
            assert report["replay"]["by"] == by
            assert json.dumps(report)
            frame = live_files(spark, snapshot)
            assert listed(frame) == LONG_LIVE
            rows = frame.orderBy("path").collect()
            found[by] = frame.schema, [row.asDict(recursive=True) for row in rows]
            fewer = live_files(spark, snapshot, fields=["path", "deletionVector"])
            assert listed(fewer) == LONG_LIVE
            assert fewer.columns == ["path", "deletionVector", "commitVersion"]
    finally:
        spark.conf.unset(key)
    assert found["executors"] == found["this process"]


def test_a_small_empty_table_is_a_frame_too(spark, tmp_path):
    TableBuilder(tmp_path).commit("+a").commit("-a")
    frame = live_files(spark, Table.open(tmp_path).snapshot())
    assert frame.collect() == []
    assert frame.columns[0] == "path"
