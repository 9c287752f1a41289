"""Checkpoints read by the decoder: the same actions as with pyarrow, or the same error."""

from __future__ import annotations

import io
import random
import resource
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Table
from lazydelta.checkpoint.checkpoint_writer import write_checkpoint
from lazydelta.checkpoint.full_replay import full_replay
from lazydelta.errors import DeltaError, LogCorruptError
from lazydelta.log import tuning
from lazydelta.parquet import NestedFile
from lazydelta.store import open_store
from tests.builders import TableBuilder, add
from tests.golden_pack import NEEDS_PACK, PACK, golden_tables
from tests.native.support import without_decoder
from tests.unit.checkpoint.checkpoint_cases import NOW, expected_state, snapshot_of, state_of

SCHEMA = {"id": "long", "day": "date", "name": "string", "at": "timestamp", "price": "decimal(9,2)"}
PATHS = pa.array([f"part-{n}.parquet" for n in range(9)])


@contextmanager
def every_checkpoint():
    """Use the decoder for checkpoints of any size; yield the outcome of each call."""
    read, seen = NestedFile.batches, []

    def watching(self, *args):
        found = read(self, *args)
        seen.append(found is not None)
        return found

    with (
        patch.object(tuning, "MIN_NATIVE_BYTES", 0),
        patch.object(NestedFile, "batches", watching),
    ):
        yield seen


def some_table(directory, files=60, **options):
    """Return a store with a checkpoint with deletion vectors, tags, nulls and tombstones."""
    store = open_store(str(directory))
    builder = TableBuilder(store, schema=SCHEMA, partition_by=["day"], **options)
    for at in range(0, files, 20):
        builder.commit(*(an_add(n) for n in range(at, at + 20)))
    builder.commit("-f-3", an_add(4, tags={"a": "1", "b": None}))
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    return store, builder


def an_add(n, **more):
    bounds = {"id": n, "name": f"né {n}", "at": "2026-01-01T00:00:00.5Z", "price": n / 4}
    stats = {"numRecords": n, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0}}
    day = None if n % 7 == 0 else f"2026-01-{n % 27 + 1:02}"
    return add(f"f-{n}", partition_values={"day": day}, stats=None if n % 5 == 0 else stats, **more)


@pytest.mark.parametrize("properties", [{}, {"delta.checkpointPolicy": "v2"}], ids=["v1", "v2"])
def test_a_checkpoint_is_decoded_as_by_pyarrow(properties, tmp_path):
    store, builder = some_table(tmp_path, configuration=properties)
    with every_checkpoint() as seen:
        assert state_of(store) == expected_state(builder)
        found = list(Table.open(tmp_path).scan().file_batches())
    assert seen
    assert all(seen)
    with without_decoder():
        assert found == list(Table.open(tmp_path).scan().file_batches())


@pytest.mark.acceptance
@NEEDS_PACK
def test_checkpoints_of_the_golden_tables():
    taken = []
    for one in golden_tables():
        table = PACK / "tables" / one["name"]
        with every_checkpoint() as seen:
            found = listed(table)
        taken += seen
        with without_decoder():
            assert found == listed(table), one["name"]
    assert taken.count(True) > 10


def listed(path):
    """Return all actions of a table, or its error."""
    try:
        with full_replay(Table.open(path).snapshot(), now_ms=0) as replay:
            adds = [row for batch in replay.adds() for row in batch.to_pylist()]
            return adds, [row for batch in replay.removes() for row in batch.to_pylist()]
    except DeltaError as error:
        return type(error), str(error)


@pytest.mark.parametrize("offset", [0.2, 0.5, 0.8])
def test_a_page_with_a_wrong_checksum(offset, tmp_path):
    store, _ = some_table(tmp_path)
    (file,) = tmp_path.glob("_delta_log/*.checkpoint.parquet")
    damaged = bytearray(file.read_bytes())
    group = pq.read_metadata(file).row_group(1)
    chunks = [group.column(at) for at in range(group.num_columns)]
    (chunk,) = (chunk for chunk in chunks if chunk.path_in_schema == "add.path")
    damaged[chunk.data_page_offset + int(chunk.total_compressed_size * offset)] ^= 0x55
    file.write_bytes(damaged)
    for commit in tmp_path.glob("_delta_log/*0.json"):
        commit.unlink()  # so that there is no way round it
    errors = []
    for context in (every_checkpoint(), without_decoder()):
        with context, pytest.raises(LogCorruptError) as caught:
            state_of(store)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_damage_in_mid_file_is_raised_after_earlier_batches(tmp_path):
    """The decoder returns some batches and then fails: pyarrow continues after them."""
    store, builder = some_table(tmp_path)
    read = NestedFile.batches

    def failing(self, *args):
        found = read(self, *args)

        def batches():
            yield from islice(found, 2)
            raise pa.ArrowInvalid("it gave up")

        return None if found is None else pa.RecordBatchReader.from_batches(found.schema, batches())

    with (
        patch("lazydelta.checkpoint.tuning.REPLAY_BATCH_ROWS", 7),
        patch.object(tuning, "MIN_NATIVE_BYTES", 0),
        patch.object(NestedFile, "batches", failing),
    ):
        assert state_of(store) == expected_state(builder)


def one_column(kind, values, **options):
    """Return a Parquet file in which `add` has a path and another field."""
    fields = pa.StructArray.from_arrays(
        [PATHS, pa.array(values, kind)], fields=[pa.field("path", "string"), pa.field("x", kind)]
    )
    sink = io.BytesIO()
    pq.write_table(pa.table({"add": fields}), sink, **options)
    return sink.getvalue()


LISTS = [[], None, [1, None], [3], *[[n] * n for n in range(5)]]
KINDS = {
    "int96": (pa.timestamp("us"), range(9), {"use_deprecated_int96_timestamps": True}, False),
    "large": (pa.large_string(), map(str, range(9)), {}, False),
    "ours": (pa.timestamp("us", "UTC"), range(9), {"store_schema": False}, True),
    "nanoseconds": (pa.timestamp("ns"), range(9), {"store_schema": False}, True),
    "decimal": (pa.decimal128(30, 2), range(9), {"store_schema": False}, True),
    "lists": (pa.list_(pa.field("element", pa.int64())), LISTS, {"store_schema": False}, True),
    "brotli": (pa.int64(), range(9), {"compression": "brotli"}, False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_types_are_those_of_pyarrow_or_not_decoded(kind, tmp_path):
    arrow, values, options, is_taken = KINDS[kind]
    file = tmp_path / "x.parquet"
    file.write_bytes(one_column(arrow, list(values), **options))
    whole = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    nested = NestedFile.open(str(file), whole.schema_arrow)
    found = nested.batches(range(whole.metadata.num_columns), [0], 4)
    with nullcontext() if is_taken else pytest.raises((pa.ArrowException, TypeError)):
        assert pa.Table.from_batches(found).equals(whole.read())


def test_highly_compressed_lists_are_not_decoded(tmp_path):
    file = tmp_path / "x.parquet"
    lists = [[0] * 1000 for _ in range(9)]
    file.write_bytes(one_column(pa.list_(pa.int64()), lists, store_schema=False))
    nested = NestedFile.open(str(file), pq.ParquetFile(file).schema_arrow)
    assert nested.batches([0], [0], 9) is not None
    assert nested.batches([0, 1], [0], 9) is None


def test_a_long_dictionary_string_is_not_expanded(tmp_path):
    """Four gigabytes when decoded, from a file of one megabyte."""
    file, string = tmp_path / "x.parquet", "x" * (1 << 19)
    fields = [pa.DictionaryArray.from_arrays(pa.array([0] * 8192, pa.int32()), pa.array([string]))]
    adds = pa.StructArray.from_arrays([*fields, *fields], ["path", "stats"])
    pq.write_table(pa.table({"add": adds}), file, store_schema=False, compression="none")
    assert file.stat().st_size < 2 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nested = NestedFile.open(str(file), pq.ParquetFile(file).schema_arrow)
    with pytest.raises(pa.ArrowException, match="too many"):
        nested.batches([0, 1], [0], 8192).read_next_batch()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10


def test_flipped_bytes_never_crash_the_process(tmp_path):
    """The outcome is batches, or an error that falls back to pyarrow."""
    chance = random.Random(11)
    maps = [[(f"k{n}", "v" * n)] * (n % 3) for n in range(9)]
    whole = one_column(pa.map_("string", "string"), maps, store_schema=False)
    schema = pq.ParquetFile(io.BytesIO(whole)).schema_arrow
    file, read = tmp_path / "x.parquet", 0
    for _ in range(600):
        damaged = bytearray(whole)
        for _ in range(chance.choice([1, 1, 4])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        file.write_bytes(damaged)
        nested = NestedFile.open(str(file), schema)
        if nested is None:
            continue
        with suppress(pa.ArrowException):
            for batch in nested.batches([0, 1, 2], [0], 4) or ():
                batch.validate(full=True)
                read += 1
    assert read > 100
