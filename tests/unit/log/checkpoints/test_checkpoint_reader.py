from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Config, Table
from lazydelta.errors import LogCorruptError
from lazydelta.log import tuning
from lazydelta.log.checkpoints import LeafReader, leaf_reader
from tests.builders import TableBuilder, add
from tests.support import listed, memory_store

KINDS = ["classic", "multipart", "v2-json", "v2-parquet", "v2-classic"]


def open_table(kind, **options):
    store = memory_store()
    table = TableBuilder(store).commit("+a +b !txn !domainMetadata").commit("-a +c")
    table.checkpoint(kind, **options).clean_up(2)
    snapshot = Table(store, Config()).snapshot()
    return snapshot, snapshot.open_checkpoint(snapshot.segment.checkpoint)


@pytest.mark.parametrize("kind", KINDS)
def test_non_file_actions_of_every_kind_of_checkpoint(kind):
    snapshot, checkpoint = open_table(kind)
    assert snapshot.protocol.min_reader_version == 3
    assert list(snapshot.transactions()) == ["app"]
    assert list(snapshot.domain_metadata()) == ["d"]
    actions = checkpoint.actions(("protocol", "metaData", "txn"), first_only=True)
    assert {kind: len(found) for kind, found in actions.items()} == {
        "protocol": 1, "metaData": 1, "txn": 1,
    }  # fmt: skip


def truncated_manifest(line, *, has_commits):
    """Return the snapshot of a table whose V2 JSON manifest ends after 5 bytes of a line."""
    store = memory_store()
    table = TableBuilder(store).commit("+a +b !txn !domainMetadata").commit("-a +c")
    table.checkpoint("v2-json").crc()  # the checksum has protocol and metadata
    (name,) = [name for name in table.names() if ".checkpoint." in name]
    lines = table.read(name).splitlines(keepends=True)
    table.write(name, b"".join(lines[:line]) + lines[line][:5])
    if not has_commits:
        table.clean_up(2)
    return Table(store, Config()).snapshot()


@pytest.mark.parametrize("line", range(1, 6))
def test_a_truncated_json_manifest_is_a_damaged_checkpoint(line):
    """Else its transactions are silently gone, and an append with an `app_id` is repeated."""
    snapshot = truncated_manifest(line, has_commits=True)
    assert snapshot.transactions()["app"].version == 1
    assert list(snapshot.domain_metadata()) == ["d"]
    with pytest.raises(LogCorruptError, match="not one complete JSON object"):
        truncated_manifest(line, has_commits=False).transactions()


@pytest.mark.parametrize("garbage", [b'{"add":{]}\n', b"[]\n", b"\0\0\0\n"])
def test_a_garbled_line_of_a_json_manifest_is_damage(garbage):
    _, checkpoint = open_table("v2-json")
    file = checkpoint.files.files[0]
    store = checkpoint._context.store
    store.write(file.path, garbage + bytes(store.read(file.path)), overwrite=True)
    checkpoint._context.commits._cache.clear()
    checkpoint._context.commits._validated.clear()
    with pytest.raises(LogCorruptError, match=r"line 1"):
        checkpoint.actions(("txn",), first_only=False)


@pytest.mark.parametrize("has_null_count", [True, False])
def test_decoding_stops_after_the_last_action_that_the_footer_counts(has_null_count, monkeypatch):
    monkeypatch.setattr(tuning, "MANIFEST_ROWS", 8)
    if not has_null_count:
        monkeypatch.setitem(leaf_reader._REQUIRED, "txn", "no such column")
    store = memory_store()
    table = TableBuilder(store).commit("!txn " + " ".join(f"+f{at}" for at in range(100)))
    table.checkpoint().clean_up(1)
    snapshot = Table(store, Config()).snapshot()
    decoded = []
    batches = LeafReader.batches

    def counting(self, *args, **kwargs):
        for batch in batches(self, *args, **kwargs):
            decoded.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(LeafReader, "batches", counting)
    checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
    actions = checkpoint.actions(("txn", "protocol"), first_only=False)
    assert [len(found) for found in actions.values()] == [1, 1]
    assert (sum(decoded) <= 16) == has_null_count


@pytest.mark.parametrize(
    ("kind", "count"),
    [("classic", 1), ("multipart", 3), ("v2-json", 3), ("v2-parquet", 4), ("v2-classic", 4)],
)
def test_leaves_of_every_kind_of_checkpoint(kind, count):
    _, checkpoint = open_table(kind, parts=3)
    assert len(checkpoint.leaves()) == count


@pytest.mark.parametrize("kind", KINDS)
def test_the_configuration_is_preserved(kind):
    store = memory_store()
    table = TableBuilder(store, configuration={"delta.appendOnly": "true", "x": ""})
    table.commit("+a").checkpoint(kind).clean_up(1)
    snapshot = Table(store, Config()).snapshot()
    assert dict(snapshot.metadata.configuration) == {"delta.appendOnly": "true", "x": ""}


def test_absent_reader_features_stay_absent():
    store = memory_store()
    plain = {"minReaderVersion": 1, "minWriterVersion": 2}
    TableBuilder(store, protocol=plain).commit("+a").checkpoint().clean_up(1)
    snapshot = Table(store, Config()).snapshot()
    assert snapshot.protocol.reader_features is None
    assert listed(snapshot.scan()) == ["a"]


def with_string_type(kind, other):
    """Return a type with another type for every string."""
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(with_string_type(part.type, other)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(*(with_string_type(part, other) for part in (kind.key_type, kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(with_string_type(kind.value_type, other))
    return other if pa.types.is_string(kind) else kind


@pytest.mark.parametrize(
    "other", [pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.binary()], ids=str
)
@pytest.mark.parametrize("is_typed", [False, True])
def test_strings_of_any_physical_type(other, is_typed):
    """Arrow writers store their types in the file; some writers leave strings without annotation."""
    store = memory_store()
    table = TableBuilder(store, schema={"id": "long", "x": "string"})
    for at, name in enumerate("abc"):
        bounds = {"id": at, "x": name}
        stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds}
        table.commit(add(name, stats=stats))
    table.checkpoint(stats_json=not is_typed, stats_parsed=is_typed).clean_up(3)
    (name,) = (name for name in table.names() if "checkpoint" in name)
    rows = pq.read_table(pa.BufferReader(table.read(name)))
    kinds = [pa.field(f.name, with_string_type(f.type, other)) for f in rows.schema]
    data = io.BytesIO()
    pq.write_table(rows.cast(pa.schema(kinds)), data, store_schema=other != pa.binary())
    table.write(name, data.getvalue())
    for strategy in ("reverse", "forward"):
        scan = Table(store, Config()).scan("id >= 1 and id < 2 and x < 'c'", strategy=strategy)
        assert listed(scan) == ["b"]


@pytest.mark.parametrize("min_threaded_bytes", [0, 1 << 40])
def test_adds_decoded_in_parallel_equal_those_decoded_in_one_thread(
    monkeypatch, min_threaded_bytes
):
    monkeypatch.setattr(tuning, "MIN_THREADED_BYTES", min_threaded_bytes)
    store = memory_store()
    names = [f"{number:02d}" for number in range(20)]
    TableBuilder(store).commit(" ".join(f"+{name}" for name in names)).checkpoint().clean_up(1)
    snapshot = Table(store, Config()).snapshot()
    checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
    (reader,) = checkpoint.readers()
    columns = ["add.path", "add.size", "add.modificationTime"]
    all_adds = list(reader.adds(columns, [0], rows=5))
    masks = [
        None if at % 2 else np.arange(batch.num_rows) == at for at, batch in enumerate(all_adds)
    ]
    selected = list(reader.adds(columns, [0], rows=5, keep=masks))
    expected = [
        batch if mask is None else batch.filter(pa.array(mask))
        for batch, mask in zip(all_adds, masks, strict=True)
        if mask is None or mask.any()
    ]
    assert [batch.to_pylist() for batch in selected] == [batch.to_pylist() for batch in expected]
    assert sum(batch.num_rows for batch in all_adds) == len(names)
