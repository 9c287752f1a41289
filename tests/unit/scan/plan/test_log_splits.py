"""Splits of a log, read one by one and combined, return the live files."""

from __future__ import annotations

import io
import itertools
import pickle
from contextlib import closing
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from lazydelta import Config, Table
from lazydelta.errors import UnsupportedActionError
from lazydelta.expressions import as_predicate
from lazydelta.protocol.schemas import ADD
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import SplitReader, live_adds, split_checkpoint, split_tail, tuning
from tests.builders import TableBuilder
from tests.builders.strategies import histories
from tests.contract.parity.test_live_files import (
    CASES,
    FEW_LAYOUTS,
    LAYOUTS,
    LONG,
    LONG_LIVE,
    built,
)
from tests.support import memory_store, name_of

SCHEMA = pa.schema(list(ADD))


def reader_of(snapshot, pruner=Pruner()):
    return SplitReader(
        open_store=lambda: snapshot.store,
        config=snapshot.config,
        checkpoint=snapshot.segment.checkpoint,
        schema=SCHEMA,
        pruner=pruner,
    )


def combine_splits(snapshot, count, pruner=Pruner()):
    """Combine splits as an engine does: the newest action per file of the tail, then the checkpoint."""
    reader = reader_of(snapshot, pruner)
    newest = {}
    for split in split_tail(snapshot.segment, count):
        for batch in reader.read_tail(split):
            assert batch.schema == reader.tail_schema
            for row in batch.to_pylist():
                order = (row["commitVersion"], row["isAdd"])
                if row["key"] not in newest or order > newest[row["key"]][0]:
                    newest[row["key"]] = (order, row)
    found = [row for _, row in newest.values() if row["isAdd"]]
    if snapshot.segment.checkpoint is not None:
        checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
        for work in split_checkpoint(checkpoint, count, pruner):
            for batch in reader.read_checkpoint(work):
                assert batch.schema == reader.checkpoint_schema
                rows = batch.to_pylist()
                found += [row for row in rows if (row["key"] or row["path"]) not in newest]
    return found


def names(rows):
    return sorted(
        name_of(row["path"], row["deletionVector"] and row["deletionVector"]["pathOrInlineDv"])
        for row in rows
    )


@pytest.fixture(params=["few-splits", "many-splits"])
def count(request, monkeypatch):
    if request.param == "few-splits":
        return 1
    monkeypatch.setattr(tuning, "MIN_SPLIT_BYTES", 1)
    return 5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout, count):
    store = memory_store()
    built(store, LONG, layout)
    assert names(combine_splits(Table(store, Config()).snapshot(), count)) == LONG_LIVE


@pytest.mark.parametrize(("commits", "expected"), CASES)
def test_every_case(commits, expected, count):
    for layout in FEW_LAYOUTS:
        store = memory_store()
        built(store, commits, layout)
        assert names(combine_splits(Table(store, Config()).snapshot(), count)) == expected, layout


@settings(max_examples=60)
@given(history=histories())
def test_random_histories(history):
    store = memory_store()
    history.build(store)
    snapshot = Table(store, Config()).snapshot()
    assert names(combine_splits(snapshot, 1)) == sorted(history.live)


def test_every_tail_file_and_row_group_is_in_exactly_one_split(monkeypatch):
    monkeypatch.setattr(tuning, "MIN_SPLIT_BYTES", 1)
    store = memory_store()
    table = TableBuilder(store).commit(" ".join(f"+f{n:03d}" for n in range(100)))
    table.checkpoint(row_group_rows=7)
    for number in range(9):
        table.commit(f"+t{number}")
    snapshot = Table(store, Config()).snapshot()
    tail = split_tail(snapshot.segment, 4)
    assert len(tail) == 4
    versions = [file.version for split in tail for file, _ in split.files]
    assert versions == sorted(versions, reverse=True) == list(range(9, 0, -1))
    checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
    work = split_checkpoint(checkpoint, 4, Pruner())
    assert len(work) == 4
    groups = [split.select(range(15)) for split in itertools.chain(*work)]
    assert sorted(itertools.chain(*groups)) == list(range(15))


def test_splits_omit_row_groups_that_cannot_match(monkeypatch):
    monkeypatch.setattr(tuning, "MIN_SPLIT_BYTES", 1)
    store = memory_store()
    table = TableBuilder(store, schema={"id": "long"})
    for number in range(8):
        table.commit({"add": _add(f"f{number}", number)})
    table.checkpoint(row_group_rows=1, stats_parsed=True)
    snapshot = Table(store, Config()).snapshot()
    pruner = Pruner.build(
        as_predicate("id = 3"), schema=snapshot.schema, partition_columns=(), mapping_mode="none"
    )
    checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
    assert [row["path"] for row in combine_splits(snapshot, 8, pruner)] == ["f3"]
    assert len(split_checkpoint(checkpoint, 8, Pruner())) == 8
    assert len(split_checkpoint(checkpoint, 8, pruner)) == 1


def test_a_pruned_add_of_the_tail_still_supersedes_the_checkpoint():
    store = memory_store()
    table = TableBuilder(store, schema={"id": "long"})
    table.commit({"add": _add("a", 1)}).checkpoint().commit({"add": _add("a", 5)})
    snapshot = Table(store, Config()).snapshot()
    pruner = Pruner.build(
        as_predicate("id = 1"), schema=snapshot.schema, partition_columns=(), mapping_mode="none"
    )
    assert combine_splits(snapshot, 1, pruner) == []


def _add(path, value):
    stats = f'{{"numRecords":1,"minValues":{{"id":{value}}},"maxValues":{{"id":{value}}},"nullCount":{{"id":0}}}}'
    return {
        "path": path, "partitionValues": {}, "size": 1, "modificationTime": 0,
        "dataChange": True, "stats": stats,
    }  # fmt: skip


def test_all_fields_and_the_commit_version_are_returned():
    store = memory_store()
    add = _add("a", 1) | {
        "tags": {"k": "v"}, "baseRowId": 7, "defaultRowCommitVersion": 1,
        "clusteringProvider": "liquid",
        "deletionVector": {
            "storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 2,
            "cardinality": 3,
        },
    }  # fmt: skip
    table = TableBuilder(store).commit({"add": add | {"path": "b"}}).commit("").checkpoint()
    table.commit({"add": add})
    rows = {row["path"]: row for row in combine_splits(Table(store, Config()).snapshot(), 1)}
    for path, version in (("a", 2), ("b", 1)):
        row = rows[path]
        assert row["commitVersion"] == version
        assert dict(row["tags"]) == {"k": "v"}
        found = {k: v for k, v in row.items() if k in add and k not in ("tags", "partitionValues")}
        expected = {k: v for k, v in (add | {"path": path}).items() if k in found}
        # A checkpoint's adds do not change data, by protocol.
        assert found | {"dataChange": True} == expected


def test_equivalent_paths_are_one_file(count):
    store = memory_store()
    table = TableBuilder(store).commit({"add": _add("d=a%20b/x.parquet", 1)})
    table.commit({"add": _add("y.parquet", 1)}).checkpoint()
    table.commit({"remove": {"path": "d=a b/x.parquet", "dataChange": True}})
    table.commit({"remove": {"path": "/memory/./y.parquet", "dataChange": True}})
    assert combine_splits(Table(store, Config()).snapshot(), count) == []


def test_an_unknown_action_raises_without_fallback():
    store = memory_store()
    TableBuilder(store).commit("+a").commit("+b !somethingNew")
    snapshot = Table(store, Config(enable_fallback=False)).snapshot()
    with pytest.raises(UnsupportedActionError):
        combine_splits(snapshot, 1)
    assert names(combine_splits(Table(store, Config()).snapshot(), 1)) == ["a", "b"]


def test_a_split_reader_can_be_pickled(tmp_path):
    built(tmp_path, LONG, "small-row-groups")
    snapshot = Table.open(tmp_path).snapshot()
    reader = SplitReader(
        open_store=partial(_open, str(tmp_path)),
        config=snapshot.config,
        checkpoint=snapshot.segment.checkpoint,
        schema=SCHEMA,
        pruner=Pruner.build(
            as_predicate("id > 1"),
            schema=snapshot.schema,
            partition_columns=(),
            mapping_mode="none",
        ),
    )
    unpickled = pickle.loads(pickle.dumps(reader))
    (split,) = split_tail(snapshot.segment, 1)
    assert list(unpickled.read_tail(split)) == list(reader.read_tail(split))


def _open(root):
    return Table.open(root).snapshot().store


@pytest.mark.parametrize("layout", LAYOUTS)
def test_live_adds_match_the_combined_splits(layout):
    store = memory_store()
    built(store, LONG, layout)
    snapshot = Table(store, Config()).snapshot()
    rows = [row for batch in live_adds(snapshot, SCHEMA, Pruner()) for row in batch.to_pylist()]
    assert names(rows) == LONG_LIVE
    combined = {row["path"]: row["commitVersion"] for row in combine_splits(snapshot, 1)}
    assert {row["path"]: row["commitVersion"] for row in rows} == combined


def test_a_multipart_checkpoint_file_may_have_no_adds(caplog):
    store = memory_store()
    table = TableBuilder(store).commit("+a +b").checkpoint("multipart", parts=2)
    name = next(name for name in table.names() if "checkpoint.0000000001" in name)
    whole = pq.read_table(pa.BufferReader(table.read(name)))
    others = whole.select([n for n in whole.column_names if n not in ("add", "remove")])
    assert len(whole.column("add").drop_null()) == 0, "the first file must have no adds"
    sink = io.BytesIO()
    pq.write_table(others, sink)
    table.write(name, sink.getvalue())
    snapshot = Table(store, Config()).snapshot()
    assert names(combine_splits(snapshot, 1)) == ["a", "b"]
    assert sorted(file.path for file in snapshot.scan().files()) == ["a", "b"]
    assert "damaged" not in caplog.text


def test_only_the_fields_that_tasks_read_make_tasks(monkeypatch):
    store = memory_store()
    table = TableBuilder(store, schema={"id": "long"})
    table.commit({"add": _add("a", 1)}, {"add": _add("b", 2)})
    table.checkpoint(row_group_rows=1, stats_parsed=True)
    snapshot = Table(store, Config()).snapshot()
    checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
    (leaf,) = checkpoint.leaves()
    with closing(checkpoint.open(leaf)) as reader:
        paths = reader.column_bytes(["add.path"], [0, 1])
    monkeypatch.setattr(tuning, "FILE_OPEN_BYTES", 0)
    monkeypatch.setattr(tuning, "MIN_SPLIT_BYTES", paths)
    pruner = Pruner.build(
        as_predicate("id > 0"), schema=snapshot.schema, partition_columns=(), mapping_mode="none"
    )
    assert len(split_checkpoint(checkpoint, 8, Pruner())) == 2
    assert len(split_checkpoint(checkpoint, 8, Pruner(), ["path"])) == 1
    assert len(split_checkpoint(checkpoint, 8, pruner, ["path"])) == 2  # statistics too
