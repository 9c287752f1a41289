from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Config, Table
from lazydelta.log import checkpoints
from lazydelta.testing import TableBuilder, add
from tests.support import listed, memory_store

KINDS = ["classic", "multipart", "v2-json", "v2-parquet", "v2-classic"]


def opened(kind, **options):
    store = memory_store()
    table = TableBuilder(store).commit("+a +b !txn !domainMetadata").commit("-a +c")
    table.checkpoint(kind, **options).clean_up(2)
    snapshot = Table(store, Config()).snapshot()
    return snapshot, snapshot.open_checkpoint(snapshot.segment.checkpoint)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_about_files_is_read_from_every_kind(kind):
    snapshot, checkpoint = opened(kind)
    assert snapshot.protocol.min_reader_version == 3
    assert list(snapshot.transactions()) == ["app"]
    assert list(snapshot.domain_metadata()) == ["d"]
    found = checkpoint.actions(("protocol", "metaData", "txn"), first_only=True)
    assert {kind: len(actions) for kind, actions in found.items()} == {
        "protocol": 1, "metaData": 1, "txn": 1,
    }  # fmt: skip


@pytest.mark.parametrize("knows_counts", [True, False])
def test_no_more_is_decoded_than_the_last_action_that_the_footer_counts(knows_counts, monkeypatch):
    monkeypatch.setattr(checkpoints, "_MANIFEST_ROWS", 8)
    if not knows_counts:
        monkeypatch.setitem(checkpoints._REQUIRED, "txn", "no such column")
    store = memory_store()
    table = TableBuilder(store).commit("!txn " + " ".join(f"+f{at}" for at in range(100)))
    table.checkpoint().clean_up(1)
    snapshot = Table(store, Config()).snapshot()
    decoded = []
    batches = checkpoints.LeafReader.batches

    def counting(self, *given, **more):
        for batch in batches(self, *given, **more):
            decoded.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(checkpoints.LeafReader, "batches", counting)
    checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
    found = checkpoint.actions(("txn", "protocol"), first_only=False)
    assert [len(actions) for actions in found.values()] == [1, 1]
    assert (sum(decoded) <= 16) == knows_counts


@pytest.mark.parametrize(
    ("kind", "count"),
    [("classic", 1), ("multipart", 3), ("v2-json", 3), ("v2-parquet", 4), ("v2-classic", 4)],
)
def test_leaves_are_the_files_that_may_have_file_actions(kind, count):
    _, checkpoint = opened(kind, parts=3)
    assert len(checkpoint.leaves()) == count


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_comes_back_as_it_was(kind):
    store = memory_store()
    table = TableBuilder(store, configuration={"delta.appendOnly": "true", "x": ""})
    table.commit("+a").checkpoint(kind).clean_up(1)
    snapshot = Table(store, Config()).snapshot()
    assert dict(snapshot.metadata.configuration) == {"delta.appendOnly": "true", "x": ""}


def test_reader_features_that_are_absent_stay_absent():
    store = memory_store()
    plain = {"minReaderVersion": 1, "minWriterVersion": 2}
    TableBuilder(store, protocol=plain).commit("+a").checkpoint().clean_up(1)
    snapshot = Table(store, Config()).snapshot()
    assert snapshot.protocol.reader_features is None
    assert listed(snapshot.scan()) == ["a"]


def with_other_texts(kind, other):
    """Return a type with something else for every string."""
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(with_other_texts(part.type, other)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(*(with_other_texts(part, other) for part in (kind.key_type, kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(with_other_texts(kind.value_type, other))
    return other if pa.types.is_string(kind) else kind


@pytest.mark.parametrize(
    "other", [pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.binary()], ids=str
)
@pytest.mark.parametrize("is_typed", [False, True])
def test_texts_are_texts_whatever_the_writer_called_them(other, is_typed):
    """Arrow's writers keep their types in the file; others never said what bytes are text."""
    store = memory_store()
    table = TableBuilder(store, schema={"id": "long", "x": "string"})
    for at, name in enumerate("abc"):
        bounds = {"id": at, "x": name}
        stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds}
        table.commit(add(name, stats=stats))
    table.checkpoint(stats_json=not is_typed, stats_parsed=is_typed).clean_up(3)
    (name,) = (name for name in table.names() if "checkpoint" in name)
    rows = pq.read_table(pa.BufferReader(table.read(name)))
    kinds = [pa.field(f.name, with_other_texts(f.type, other)) for f in rows.schema]
    data = io.BytesIO()
    pq.write_table(rows.cast(pa.schema(kinds)), data, store_schema=other != pa.binary())
    table.write(name, data.getvalue())
    for strategy in ("reverse", "forward"):
        scan = Table(store, Config()).scan("id >= 1 and id < 2 and x < 'c'", strategy=strategy)
        assert listed(scan) == ["b"]


@pytest.mark.parametrize("worth_a_thread", [0, 1 << 40])
def test_adds_decoded_by_two_threads_are_those_of_one(monkeypatch, worth_a_thread):
    monkeypatch.setattr("lazydelta.log.checkpoints._WORTH_A_THREAD", worth_a_thread)
    store = memory_store()
    names = [f"{number:02d}" for number in range(20)]
    TableBuilder(store).commit(" ".join(f"+{name}" for name in names)).checkpoint().clean_up(1)
    snapshot = Table(store, Config()).snapshot()
    checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
    (reader,) = checkpoint.readers()
    columns = ["add.path", "add.size", "add.modificationTime"]
    whole = list(reader.adds(columns, [0], rows=5))
    wanted = [None if at % 2 else np.arange(batch.num_rows) == at for at, batch in enumerate(whole)]
    kept = list(reader.adds(columns, [0], rows=5, keep=wanted))
    expected = [
        batch if mask is None else batch.filter(pa.array(mask))
        for batch, mask in zip(whole, wanted, strict=True)
        if mask is None or mask.any()
    ]
    assert [batch.to_pylist() for batch in kept] == [batch.to_pylist() for batch in expected]
    assert sum(batch.num_rows for batch in whole) == len(names)
