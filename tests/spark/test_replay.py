"""Log replay on executors returns the files of the other replays.

Starting a Spark job costs more than replaying these logs, so many tables share one job.
"""

from __future__ import annotations

import functools
import json
import pickle
from datetime import date

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as f

from lazydelta import Config, Table
from lazydelta.errors import ConfigError, DeltaError, RetentionGuardError
from lazydelta.scan.plan import tuning
from lazydelta.spark import distributed_log_replay, planner
from lazydelta.spark.serialized_snapshot import TableLocation
from tests.builders import TableBuilder
from tests.builders.strategies import histories
from tests.contract.parity.test_live_files import CASES, LAYOUTS, LONG, LONG_LIVE, built
from tests.golden_pack import NEEDS_PACK, PACK, golden_tables
from tests.support import memory_store, name_of


@pytest.fixture(params=["few-splits", pytest.param("many-splits", marks=pytest.mark.long)])
def tasks(request, monkeypatch):
    """The requested number of tasks; with many splits, actions of the tail are reconciled in a shuffle."""
    if request.param == "few-splits":
        return 50
    monkeypatch.setattr(tuning, "MIN_SPLIT_BYTES", 1)
    return 2


def listed(frame):
    rows = frame.select("path", "deletionVector.pathOrInlineDv").collect()
    return sorted(name_of(path, vector) for path, vector in rows)


def listed_together(frames):
    """Return the files of many frames, found by one job."""
    tagged = [
        frame.select(f.lit(tag).alias("tag"), "path", "deletionVector.pathOrInlineDv")
        for tag, frame in frames.items()
    ]
    found = {tag: [] for tag in frames}
    for tag, path, vector in functools.reduce(lambda a, b: a.union(b), tagged).collect():
        found[tag].append(name_of(path, vector))
    return {tag: sorted(files) for tag, files in found.items()}


def snapshot_of(directory, **config):
    return Table.open(directory, config=Config(**config)).snapshot()


def test_every_layout_of_the_log(spark, tmp_path, tasks):
    frames = {}
    for layout in LAYOUTS:
        built(tmp_path / layout, LONG, layout)
        frames[layout] = distributed_log_replay(spark, snapshot_of(tmp_path / layout), tasks)
    assert listed_together(frames) == dict.fromkeys(LAYOUTS, LONG_LIVE)


@pytest.mark.long
def test_every_history(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "MIN_SPLIT_BYTES", 1)
    frames, expected = {}, {}
    for number, case in enumerate(CASES):
        commits, live = case.values
        built(tmp_path / str(number), commits, "checkpoint-in-between")
        snapshot = snapshot_of(tmp_path / str(number))
        frames[str(number)] = distributed_log_replay(spark, snapshot, 2)
        expected[str(number)] = live
    assert listed_together(frames) == expected


def check_random_histories(spark, directory, some):
    frames, expected = {}, {}
    for number, history in enumerate(some):
        place = directory / str(len(list(directory.iterdir())))
        history.build(str(place))
        frames[str(number)] = distributed_log_replay(spark, snapshot_of(place), 3)
        expected[str(number)] = sorted(history.live)
    assert listed_together(frames) == expected


# Few examples with many tables each: shrinking a failure is slow here, so debug with the unit test
# of splits first (tests/unit/scan/plan/test_log_splits.py).
_SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=2, suppress_health_check=_SLOW)
@given(some=st.lists(histories(), min_size=6, max_size=6))
def test_random_histories(spark, tmp_path, some):
    check_random_histories(spark, tmp_path, some)


@pytest.mark.long
@settings(max_examples=100, suppress_health_check=_SLOW)
@given(some=st.lists(histories(max_commits=20), min_size=8, max_size=8))
def test_many_random_histories(spark, tmp_path, some):
    check_random_histories(spark, tmp_path, some)


@pytest.mark.acceptance
@NEEDS_PACK
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_the_golden_tables(spark, every):
    frames, expected, found = {}, {}, 0
    for table in golden_tables():
        try:
            snapshot = snapshot_of(PACK / "tables" / table["name"])
        except DeltaError:
            continue
        if snapshot.segment.checkpoint is None and len(snapshot.segment.tail) < 2:
            continue
        found += 1
        if found % every:
            continue
        with snapshot.scan().files() as files:
            expected[table["name"]] = sorted(
                name_of(file.raw_path, file.deletion_vector and file.deletion_vector.path_or_inline_dv)
                for file in files
            )  # fmt: skip
        frames[table["name"]] = distributed_log_replay(
            spark, snapshot, fields=["path", "deletionVector"]
        )
    assert found > 50, "too few tables: is the pack whole?"
    names = list(frames)
    for start in range(0, len(names), 25):
        some = {name: frames[name] for name in names[start : start + 25]}
        assert listed_together(some) == {name: expected[name] for name in some}


def test_a_tail_too_large_to_broadcast(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(planner.tuning, "MAX_BROADCAST_KEYS", -1)
    built(tmp_path, LONG, "checkpoint-in-between")
    frame = distributed_log_replay(spark, snapshot_of(tmp_path))
    assert listed(frame) == LONG_LIVE
    assert plan_of(frame).count("SortMergeJoin") == 1


def test_the_checkpoint_is_never_shuffled(spark, tmp_path):
    built(tmp_path, LONG, "checkpoint-in-between")
    plan = plan_of(distributed_log_replay(spark, snapshot_of(tmp_path)))
    assert "BroadcastHashJoin" in plan
    assert "Exchange hashpartitioning" not in plan
    assert "MapInArrow read_checkpoint(" in plan
    assert "MapInArrow read_tail(" in plan


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_all_fields_of_an_add_survive(spark, tmp_path):
    stats = '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
    add = {
        "path": "a", "partitionValues": {"day": "2026-01-02"}, "size": 5, "modificationTime": 6,
        "dataChange": True, "stats": stats, "tags": {"k": "v"}, "baseRowId": 7,
        "defaultRowCommitVersion": 1, "clusteringProvider": "liquid",
        "deletionVector": {
            "storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 2,
            "cardinality": 3,
        },
    }  # fmt: skip
    table = TableBuilder(tmp_path, schema={"id": "long", "day": "date"}, partition_by=["day"])
    table.commit({"add": add}).checkpoint(stats_parsed=True, partition_values_parsed=True)
    table.commit({"add": add | {"path": "b"}})
    rows = distributed_log_replay(spark, snapshot_of(tmp_path)).orderBy("path").collect()
    old, new = (row.asDict(recursive=True) for row in rows)
    typed = {
        "numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0},
        "tightBounds": None,
    }  # fmt: skip
    assert old.pop("stats_parsed") == typed
    assert old.pop("partitionValues_parsed") == {"day": date(2026, 1, 2)}
    assert (new.pop("stats_parsed"), new.pop("partitionValues_parsed")) == (None, None)
    assert new == add | {"path": "b", "commitVersion": 1}
    assert old | {"dataChange": True} == add | {"commitVersion": 0}


def test_only_requested_fields_are_read(spark, tmp_path):
    built(tmp_path, LONG, "checkpoint-in-between")
    snapshot = snapshot_of(tmp_path)
    frame = distributed_log_replay(spark, snapshot, fields=["size", "stats_parsed"])
    assert frame.columns == ["path", "size", "commitVersion"]
    assert frame.count() == len(LONG_LIVE)
    with pytest.raises(ConfigError, match="an add has no 'sizes'"):
        distributed_log_replay(spark, snapshot, fields=["sizes"])


@pytest.mark.parametrize("where", ["id = 4", "day = '2026-01-02'", "id > 5 OR day IS NULL"])
def test_a_predicate_keeps_what_the_scan_of_this_process_keeps(spark, tmp_path, where):
    table = TableBuilder(tmp_path, schema={"id": "long", "day": "date"}, partition_by=["day"])
    for number in range(12):
        table.commit({"add": some_add(number)})
        if number == 7:
            table.checkpoint(stats_parsed=True, row_group_rows=2)
    table.commit({"add": some_add(3) | {"stats": some_add(11)["stats"]}})
    snapshot = snapshot_of(tmp_path)
    with snapshot.scan(where).files() as files:
        expected = sorted(file.path for file in files)
    assert 0 < len(expected) < 12
    assert listed(distributed_log_replay(spark, snapshot, where=where)) == expected


def some_add(number):
    bounds = {"id": number}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0}}
    day = None if number % 3 == 0 else f"2026-01-0{number % 3}"
    return {
        "path": f"f{number}", "partitionValues": {"day": day}, "size": 1, "modificationTime": 0,
        "dataChange": True, "stats": json.dumps(stats),
    }  # fmt: skip


# --- errors ---------------------------------------------------------------------------------------


def test_an_unknown_action_fails_the_job_where_no_fallback_is_allowed(spark, tmp_path):
    TableBuilder(tmp_path).commit("+a").commit("+b !somethingNew")
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="UnsupportedActionError"):
        distributed_log_replay(spark, snapshot_of(tmp_path, enable_fallback=False)).collect()
    assert listed(distributed_log_replay(spark, snapshot_of(tmp_path))) == ["a", "b"]


def test_the_retention_guard_applies(spark, tmp_path):
    TableBuilder(tmp_path).commit("+a").checkpoint()
    with pytest.raises(RetentionGuardError):
        distributed_log_replay(spark, snapshot_of(tmp_path, retention_guard=lambda floor: False))


def test_a_store_of_this_process_alone_is_refused(spark):
    store = memory_store(local=False)
    TableBuilder(store).commit("+a")
    with pytest.raises(ConfigError, match="executors cannot open memory://table"):
        distributed_log_replay(spark, Table(store, Config()).snapshot())


def test_the_number_of_partitions_is_checked(spark, tmp_path):
    TableBuilder(tmp_path).commit("+a")
    with pytest.raises(ConfigError, match="num_partitions: must be at least 1, not 0"):
        distributed_log_replay(spark, snapshot_of(tmp_path), 0)


# --- what is sent to executors --------------------------------------------------------------------


def test_storage_options_stay_out_of_the_plan(tmp_path):
    options = {"aws_access_key_id": "known", "aws_secret_access_key": "hush-hush"}
    file = tmp_path / "options.json"
    file.write_text(json.dumps(options))
    table = Table.open("s3://bucket/table", {**options, "aws_region": "x"}, Config())
    sent = pickle.dumps(TableLocation.of(table._store, Config(), str(file)).open)
    assert b"hush-hush" not in sent
    assert str(file).encode() in sent
    there = pickle.loads(sent)()
    assert there.root == "s3://bucket/table"
    while (inner := getattr(there, "inner", None)) is not None:
        there = inner
    assert there.__reduce__()[1][1] == options


def test_a_table_that_only_options_can_open_may_be_sent():
    account = {"account_name": "here", "account_key": "aHVzaA=="}
    table = Table.open("az://lake/table", account, Config())
    assert TableLocation.of(table._store, Config(), "options.json").root == "az://lake/table"


def test_an_options_file_that_is_no_json_object_is_refused(tmp_path):
    file = tmp_path / "options.json"
    address = TableLocation(root="s3://bucket/table", config=Config(), options_file=str(file))
    for content in ("[1]", "{", '{"a": 1}'):
        file.write_text(content)
        with pytest.raises(ConfigError, match="storageOptionsFile"):
            address.open()
    file.unlink()
    with pytest.raises(ConfigError, match="storageOptionsFile"):
        address.open()
