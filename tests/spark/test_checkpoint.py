"""Checkpoints made by executors: action for action those of one process."""

from __future__ import annotations

import importlib
import json
import shutil
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta.checkpoint import CheckpointParts, TombstonePart
from lazydelta.errors import InternalError, LogCorruptError, ObjectExistsError
from lazydelta.protocol import ADD
from lazydelta.scan.plan import live_adds
from lazydelta.spark.replay import pruner_of

QUIET = ld.Config(write_checkpoints=False)
V2 = {"delta.checkpointPolicy": "v2"}


def build(url, properties, *, old="classic"):
    """Make a table with partitions that share a prefix, nulls, tombstones and a step."""
    for number in range(4):
        day = [f"a long name {at % 5}" if at % 7 else None for at in range(15)]
        rows = {"id": [*range(number * 15, number * 15 + 15)], "day": day}
        ld.write(url, rows, "append", partition_by="day", properties=properties, config=QUIET)
    if old is not None:
        ld.Table.open(url).checkpoint()
    for number in (3, 4):
        where = f"day = 'a long name {number}'"
        rows = {"id": [1000 + number], "day": [f"a long name {number}"]}
        step = {"app_id": "nightly", "app_version": number}
        ld.write(url, rows, "overwrite", predicate=where, config=QUIET, **step)
    return ld.Table.open(url)


def actions_of(url, version):
    """Return the actions of a checkpoint and, of those about files, their files."""
    log = url / "_delta_log"
    classic = log / f"{version:020d}.checkpoint.parquet"
    if classic.exists():
        return pq.read_table(classic).to_pylist(), [classic]
    (manifest,) = log.glob(f"{version:020d}.checkpoint.*.json")
    others = [json.loads(line) for line in manifest.read_text().splitlines()]
    files = [log / "_sidecars" / one["sidecar"]["path"] for one in others if "sidecar" in one]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return [*rows, *(one for one in others if "sidecar" not in one)], files


def plain(actions):
    return sorted(str({k: v for k, v in one.items() if v is not None}) for one in actions)


@pytest.fixture
def distributed(spark):
    session = spark.newSession()
    session.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
    return session


@pytest.mark.parametrize(
    ("properties", "old"),
    [
        pytest.param(V2, "v2", id="sidecars-after-a-checkpoint"),
        pytest.param({}, "classic", id="one-file-after-a-checkpoint"),
        pytest.param(
            {**V2, "delta.checkpoint.writeStatsAsJson": "false"}, None,
            id="typed-statistics-after-commits-alone", marks=pytest.mark.long),
        pytest.param(
            {"delta.checkpoint.writeStatsAsJson": "false"}, "classic",
            id="typed-statistics-of-the-checkpoint-before", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_it_is_the_checkpoint_of_one_process(distributed, tmp_path, monkeypatch, properties, old):
    module = importlib.import_module("lazydelta.spark.checkpoint")  # not the function
    monkeypatch.setattr(module, "_FILES_PER_SIDECAR", 5)
    url, twin = tmp_path / "t", tmp_path / "twin"
    table = build(url, properties, old=old)
    shutil.copytree(url, twin)
    before = sorted(table.files())
    result = executors.checkpoint(distributed, url)
    here = ld.Table.open(twin).checkpoint()
    assert (result.version, result.is_new) == (5, True)
    assert (result.adds, result.removes) == (here.adds, here.removes)
    assert result.removes > 0
    actions, files = actions_of(url, 5)
    assert (len(files) > 2) is (properties.get("delta.checkpointPolicy") == "v2")
    expected, here_files = actions_of(twin, 5)
    assert plain(actions) == plain(expected)
    found = [row.get("add") for file in files for row in pq.read_table(file).to_pylist()]
    adds = [add for add in found if add is not None]
    days = [dict(add["partitionValues"])["day"] for add in adds]
    assert days == sorted(days, key=lambda day: (day is not None, day))
    snapshot = table.snapshot()
    assert snapshot.segment.floor == snapshot.version == 5
    assert sorted(table.files()) == before
    assert snapshot.transactions()["nightly"].version == 4
    hints = [json.loads((at / "_delta_log/_last_checkpoint").read_text()) for at in (url, twin)]
    assert [hint["numOfAddFiles"] for hint in hints] == [result.adds] * 2
    assert hints[0]["size"] - len(files) == hints[1]["size"] - len(here_files)
    again = executors.checkpoint(distributed, url)
    assert (again.is_new, again.adds) == (False, result.adds)


def test_a_small_table_is_left_to_this_process(spark, tmp_path):
    build(tmp_path, {}, old=None)
    result = executors.checkpoint(spark, tmp_path, 3)
    assert (result.version, result.is_new) == (3, True)


# --- parts, without Spark


def rows_of(parts, snapshot):
    """Return all rows of a checkpoint, sorted, as Spark would hand them to one task."""
    tail = TombstonePart(commits=True)
    found = [parts.add_rows(batch) for batch in live_adds(snapshot, pa.schema(list(ADD)), pruner_of(
        snapshot, None))]  # fmt: skip
    found = [batch.select(parts.schema.names) for batch in found]
    found += [batch.select(parts.schema.names) for batch in parts.tombstones(snapshot, tail)]
    table = pa.Table.from_batches(found)
    orderable = [(name, "ascending") for name in parts.order]
    return table.sort_by(orderable).to_batches()


@pytest.fixture
def case(tmp_path):
    def make(properties):
        snapshot = build(tmp_path, properties, old=None).snapshot()
        parts = CheckpointParts.of(snapshot)
        return snapshot, parts, rows_of(parts, snapshot)

    return make


def totals(snapshot):
    return snapshot.checksum.num_files, snapshot.checksum.table_size_bytes


def test_shares_become_sidecars_with_adds_and_tombstones_apart(case):
    snapshot, parts, (rows,) = case(V2)
    halves = [rows.slice(0, 10), rows.slice(10)]
    files = [file for half in halves for file in parts.write(snapshot, [half], expected=-1)]
    assert [(file.file.adds > 0, file.file.removes > 0) for file in files] == [
        (True, False), (True, False), (False, True),
    ]  # fmt: skip
    result = parts.publish(snapshot, files, expected=totals(snapshot), started=time.perf_counter())
    assert (result.adds, result.removes) == (totals(snapshot)[0], files[-1].file.removes)
    assert "lazydelta.zones" in files[0].file.tags


def test_a_missing_part_is_noticed_before_anything_is_published(case):
    snapshot, parts, (rows,) = case(V2)
    files = list(parts.write(snapshot, [rows.slice(3)], expected=-1))
    with pytest.raises(InternalError, match="the parts of a checkpoint name"):
        parts.publish(snapshot, files, expected=totals(snapshot), started=0.0)
    with pytest.raises(LogCorruptError, match=r"5\.crc"):
        parts.publish(snapshot, files, expected=(1, 1), started=0.0)
    log = f"{snapshot.store.root}/_delta_log"
    assert snapshot.segment.checkpoint is None
    assert ld.Table.open(snapshot.store.root).snapshot().segment.checkpoint is None, log


def test_one_file_is_published_complete_or_not_at_all(case):
    snapshot, parts, (rows,) = case({})
    count, _ = totals(snapshot)
    with pytest.raises(InternalError, match="adds were written"):
        list(parts.write(snapshot, [rows.slice(1)], expected=count))
    assert ld.Table.open(snapshot.store.root).snapshot().segment.checkpoint is None
    (file,) = parts.write(snapshot, [rows], expected=count)
    with pytest.raises(ObjectExistsError):  # an attempt whose answer was lost
        list(parts.write(snapshot, [rows], expected=count))
    assert file.checkpoint.adds == count
    result = parts.publish(snapshot, [file], expected=totals(snapshot), started=0.0)
    assert result.is_new


def test_rows_out_of_order_are_refused(case):
    snapshot, parts, (rows,) = case(V2)
    wrong = [rows.slice(rows.num_rows - 1), rows.slice(0, 5)]
    with pytest.raises(InternalError, match="not sorted"):
        list(parts.write(snapshot, wrong, expected=-1))
