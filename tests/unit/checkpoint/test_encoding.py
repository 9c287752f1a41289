"""Files of checkpoints are encoded in pieces by several threads, and nobody can tell."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta.checkpoint import action_source as checkpoint_source
from lazydelta.checkpoint import layouts as checkpoint_layouts
from lazydelta.checkpoint.action_encoding import ActionEncoder
from lazydelta.checkpoint.checkpoint_schema import CheckpointSettings, CheckpointShape
from lazydelta.checkpoint.checkpoint_writer import write_checkpoint
from lazydelta.checkpoint.full_replay import full_replay
from lazydelta.parquet import Piece
from lazydelta.protocol import clustering_columns
from lazydelta.testing import add
from tests.unit.checkpoint.checkpoint_cases import (
    NOW,
    SCHEMA,
    V2,
    built,
    expected_state,
    snapshot_of,
    state_of,
)

ADDS = 43


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(checkpoint_source, "ROW_GROUP_ROWS", 4)
    monkeypatch.setattr(checkpoint_layouts, "_SIDECAR_ADDS", 12)


def table_of_many_kinds(configuration=None):
    """Return a store and a builder of a table with every kind of action, and some of each null."""
    store, builder = built(schema=SCHEMA, partition_by=["day"], configuration=configuration)
    for start in range(0, ADDS, 11):
        builder.commit(
            *(
                add(
                    f"day={at % 3}/{at}",
                    partition_values={"day": None if at % 3 == 2 else f"2026-01-0{1 + at % 3}"},
                    stats=None if at % 7 == 6 else _stats(at),
                    tags={"at": str(at)} if at % 5 == 0 else None,
                )
                for at in range(start, min(start + 11, ADDS))
            ),
            {"txn": {"appId": f"app{start}", "version": start}},
            {"domainMetadata": {"domain": f"d{start}", "configuration": "{}", "removed": False}},
        )
    builder.commit(*(f"-gone{at}" for at in range(6)))
    return store, builder


def _stats(at):
    bounds = {"id": at, "name": f"name {at}", "price": at / 4}
    return {"numRecords": at, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0}}


def parquet_files(store):
    return [
        path
        for directory in ("_delta_log/", "_delta_log/_sidecars/")
        for batch in store.list_from(directory)
        for path in batch["path"].to_pylist()
        if path.endswith(".parquet")
    ]


def by_one_writer(data, encoder):
    """Return what a single writer makes of the row groups of a file."""
    file = pq.ParquetFile(pa.BufferReader(data))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, encoder.schema, **encoder.options) as writer:
        for at in range(file.num_row_groups):
            group = file.read_row_group(at).cast(encoder.schema)
            writer.write_table(group, group.num_rows)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("configuration", [None, V2], ids=["classic", "v2"])
def test_a_file_has_the_bytes_of_a_single_writer(configuration, small_groups):
    store, builder = table_of_many_kinds(configuration)
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    snapshot = snapshot_of(store)
    with full_replay(snapshot) as replay:
        shape = CheckpointShape(
            snapshot,
            CheckpointSettings.of(snapshot),
            clustered_by=clustering_columns(replay.domains),
        )
    encoder = ActionEncoder(shape, others=configuration is None)
    files = [bytes(store.read(path)) for path in parquet_files(store)]
    assert sum(pq.read_metadata(pa.BufferReader(data)).num_row_groups for data in files) >= 12
    for data in files:
        assert data == by_one_writer(data, encoder)
    assert state_of(store) == expected_state(builder)


def test_what_has_no_value_is_encoded_once(small_groups, monkeypatch):
    empty, others = [], []
    encoded = Piece.encoded

    def counting(columns, options):
        column = columns.column(0).combine_chunks()
        has_values = any(field.null_count < len(field) for field in column.flatten())
        what = (columns.schema.names[0], str(column.type), column.null_count, len(column))
        (others if has_values else empty).append(what)
        return encoded(columns, options)

    monkeypatch.setattr(Piece, "encoded", counting)
    monkeypatch.setattr(checkpoint_layouts, "_ENCODERS", 1)
    store, builder = table_of_many_kinds()
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert state_of(store) == expected_state(builder)
    assert len(set(empty)) == len(empty)
    # Columns of other kinds of action are null; of adds, fields are.
    assert {(name, nulls) for name, _, nulls, rows in empty if rows == 4} == {
        ("txn", 4),
        ("metaData", 4),
        ("protocol", 4),
        ("domainMetadata", 4),
        ("remove", 4),
        ("add", 0),
    }
    assert sum(name == "add" and rows == 4 for name, _, _, rows in others) >= ADDS // 4


def test_row_groups_are_encoded_side_by_side(small_groups, monkeypatch):
    met = threading.Barrier(2, timeout=30)
    files = ActionEncoder.files

    def meeting(self, kind, pieces):
        if kind == "add" and len(pieces[0]["path"]) == 4:
            met.wait()  # would time out if one were encoded after the other
        return files(self, kind, pieces)

    monkeypatch.setattr(ActionEncoder, "files", meeting)
    store, builder = table_of_many_kinds()
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert state_of(store) == expected_state(builder)


@pytest.mark.parametrize("configuration", [None, V2], ids=["classic", "v2"])
@pytest.mark.parametrize("kind", ["add", "remove"])
def test_an_encoder_that_fails_leaves_no_checkpoint(kind, configuration, small_groups, monkeypatch):
    store, builder = table_of_many_kinds(configuration)
    files = ActionEncoder.files

    def failing(self, which, pieces):
        if which == kind:
            raise MemoryError("no more memory")
        return files(self, which, pieces)

    monkeypatch.setattr(ActionEncoder, "files", failing)
    with pytest.raises(MemoryError, match="no more memory"):
        write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert not [path for path in parquet_files(store) if "_sidecars" not in path]
    assert snapshot_of(store).segment.checkpoint is None
    monkeypatch.undo()
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert state_of(store) == expected_state(builder)
