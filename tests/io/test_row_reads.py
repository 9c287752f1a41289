"""Round trips of row reads on a remote store: what is known to be needed is requested together."""

from __future__ import annotations

import json
import threading

import numpy as np
import pyarrow as pa
import pytest

from lazydelta import Config, ReadOptions, Table
from lazydelta.errors import DataFileError
from lazydelta.log import log_store
from lazydelta.parquet import DataFile
from lazydelta.parquet import tuning as parquet_tuning
from lazydelta.scan import tuning
from lazydelta.scan.read import reading
from lazydelta.scan.read.reading import Reading
from lazydelta.store import MemoryStore
from lazydelta.store import tuning as store_tuning
from lazydelta.store.layers.metered_store import MeteredStore
from tests.support import RoundTripStore
from tests.unit.scan.read.tables import Rows

FIELDS = [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in (("id", "long"), ("a", "double"), ("b", "double"), ("c", "binary"))
]
RANDOM = np.random.default_rng(7)


def rows_of(start, count, blob=0):
    """Return incompressible rows; `blob` is the size of a binary value."""
    blobs = [RANDOM.bytes(blob) for _ in range(count)] if blob else [b""] * count
    return pa.table(
        {
            "id": np.arange(start, start + count),
            "a": RANDOM.random(count),
            "b": RANDOM.random(count),
            "c": pa.array(blobs, pa.binary()),
        }
    )


def stats_of(table):
    bounds = {
        "minValues": {"id": table["id"][0].as_py()},
        "maxValues": {"id": table["id"][-1].as_py()},
    }
    return {"stats": json.dumps({"numRecords": table.num_rows, **bounds})}


def objects_below(path):
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def metered(rows):
    """Return a table in a remote store, and the store."""
    rows.open()
    store = MeteredStore(MemoryStore(objects_below(rows.path)))
    return Table(store, Config()), store


def data_calls(store):
    return [call for call in store.calls if not call.path.startswith("_delta_log")]


def read(table, *args, options=None, **kwargs):
    return table.scan(*args, **kwargs).to_arrow(options=options)


@pytest.fixture
def large_file(tmp_path):
    """A table of one file with eight row groups of half a megabyte, most of it in `c`."""
    table = rows_of(0, 8000, blob=512)
    return Rows(tmp_path / "t", FIELDS).file("f.parquet", table, row_group_size=1000), table


def test_a_small_file_is_one_request(tmp_path):
    table = rows_of(0, 1000)
    remote, store = metered(Rows(tmp_path, FIELDS).file("f.parquet", table, row_group_size=100))
    assert read(remote).equals(table.cast(read(remote).schema))
    store.reset()
    read(remote)
    assert [call.requests for call in data_calls(store)] == [1]


@pytest.mark.parametrize(("columns", "calls"), [(None, 1), (["id", "a", "c"], 2)])
def test_the_columns_of_all_row_groups_are_requested_together(large_file, columns, calls):
    rows, table = large_file
    remote, store = metered(rows)
    assert read(remote, columns=columns)["a"].equals(table["a"])
    assert len(data_calls(store)) == calls


def test_distant_row_groups_are_requested_together(large_file):
    rows, table = large_file
    remote, store = metered(rows)
    found = read(remote, "id in (5, 3005, 7005)", columns=["id", "a"])
    assert found["a"].to_pylist() == [table["a"][at].as_py() for at in (5, 3005, 7005)]
    assert len(data_calls(store)) == 2


def test_a_large_file_is_fetched_in_bounded_parts(large_file, monkeypatch):
    rows, table = large_file
    monkeypatch.setattr(parquet_tuning, "REMOTE_FETCH_BYTES", 3 << 19)
    monkeypatch.setattr(parquet_tuning, "WHOLE_READ_BYTES", 0)
    remote, store = metered(rows)
    held = []
    fetched = DataFile.fetched

    def observed(file, *args, **kwargs):
        for part in fetched(file, *args, **kwargs):
            held.append(sum(block.size for _, block in file._file._ranges._blocks))
            yield part

    monkeypatch.setattr(DataFile, "fetched", observed)
    assert read(remote)["c"].equals(table["c"])
    assert len(held) == len(data_calls(store)) - 1 == 4
    assert max(held) < 2 * (3 << 19) + (64 << 10)  # the part that is decoded, and the next


def test_other_columns_of_row_groups_with_a_match_are_requested_together(large_file, monkeypatch):
    rows, table = large_file
    monkeypatch.setattr(tuning, "LATE_MIN_REMOTE_BYTES", 0)
    monkeypatch.setattr(store_tuning, "COALESCE_GAP", 64 << 10)
    remote, store = metered(rows)
    wanted = [table["a"][at].as_py() for at in (1500, 6500)]
    found = read(remote, f"a in ({wanted[0]!r}, {wanted[1]!r})")
    assert found["id"].to_pylist() == [1500, 6500]
    assert found["c"].equals(table["c"].take([1500, 6500]))
    calls = data_calls(store)
    assert len(calls) == 3  # the footer, the predicate's column, the others
    assert calls[1].bytes < 100_000
    assert calls[2].bytes < 2 * 600_000


def test_small_columns_of_few_files_are_requested_with_the_predicate(large_file):
    rows, table = large_file
    remote, store = metered(rows)
    found = read(remote, f"a = {table['a'][1500].as_py()!r}")
    assert found["id"].to_pylist() == [1500]
    assert len(data_calls(store)) == 2


def many_files(path, count, num_rows=2000, blob=600):
    rows = Rows(path, FIELDS)
    for at in range(count):
        table = rows_of(at * num_rows, num_rows, blob)
        rows.file(f"{at}.parquet", table, row_group_size=num_rows // 2, action=stats_of(table))
    return rows


def test_a_limit_opens_one_file_and_fetches_its_first_row_group(tmp_path):
    remote, store = metered(many_files(tmp_path, 6, num_rows=4000, blob=300))
    assert read(remote, limit=10).num_rows == 10
    calls = data_calls(store)
    assert len({call.path for call in calls}) == 1
    assert len(calls) == 2
    assert calls[1].bytes < 700_000


def test_a_limit_opens_as_many_files_as_it_needs(tmp_path):
    remote, store = metered(many_files(tmp_path, 8))
    assert read(remote, limit=7000).num_rows == 7000
    assert len({call.path for call in data_calls(store)}) == 4


class Rendezvous(MemoryStore):
    """A remote store whose requests of data wait until so many are under way."""

    def __init__(self, objects, parties):
        super().__init__(objects)
        self._barrier = threading.Barrier(parties, timeout=60)

    def read_ranges(self, path, ranges):
        if not path.startswith("_delta_log"):
            self._barrier.wait()
        return super().read_ranges(path, ranges)


def rendezvous(rows, parties):
    rows.open()
    store = MeteredStore(Rendezvous(objects_below(rows.path), parties))
    return Table(store, Config()), store


def test_files_of_a_selective_read_are_read_in_parallel(tmp_path):
    remote, store = rendezvous(many_files(tmp_path, 12), 4)
    assert read(remote, "id >= 5000 and id < 11000").num_rows == 6000
    calls = data_calls(store)
    assert len(calls) == 2 * len({call.path for call in calls}) == 8


def test_deletion_vectors_are_requested_with_the_footer(tmp_path):
    rows = Rows(tmp_path, FIELDS, features=("deletionVectors",))
    vectors = [*rows.vectors([1], [0, 2]), *rows.vectors([3]), None]
    for index, vector in enumerate(vectors):
        rows.file(f"{index}.parquet", rows_of(index * 10, 10), vector=vector)
    remote, store = rendezvous(rows, 6)
    deleted = {1, 10, 12, 23}
    assert read(remote)["id"].to_pylist() == [row for row in range(40) if row not in deleted]
    vector_calls = [call for call in data_calls(store) if call.path.endswith(".bin")]
    assert sorted(call.requests for call in vector_calls) == [1, 2]


def test_many_small_files_are_read_in_parallel(tmp_path):
    remote, store = rendezvous(many_files(tmp_path, 24, num_rows=10), 24)
    assert read(remote).num_rows == 240
    assert len(data_calls(store)) == 24


@pytest.mark.parametrize(
    ("size", "running", "may_start"),
    [(1 << 20, 31, True), (100 << 20, 8, False), (100 << 20, 7, True), (16 << 20, 16, False)],
)
def test_fewer_large_files_are_read_in_parallel(tmp_path, monkeypatch, size, running, may_start):
    monkeypatch.setattr(reading, "threads_for", lambda *_: 8)
    remote, _ = metered(many_files(tmp_path, 1, num_rows=10))
    rows = Reading(remote.scan(), ReadOptions())
    rows._num_files, rows._num_bytes = 3, 3 * size
    assert rows._may_start(running) is may_start


def test_round_trips_of_whole_reads(tmp_path, monkeypatch):
    table = Table.open(tmp_path)
    for index in range(12):
        table.write(rows_of(index * 2000, 2000, blob=600))
    reads = {
        "limit": (lambda remote: read(remote, limit=10).num_rows, 10, 5),
        "filter": (lambda remote: read(remote, "id >= 5000 and id < 5100").num_rows, 100, 7),
        "count": (lambda remote: remote.scan().count(), 24_000, 4),
    }
    for name, (run, rows, depth) in reads.items():
        store = RoundTripStore(objects_below(tmp_path))
        monkeypatch.setattr(log_store, "open_store", lambda *_, remote=store, **__: remote)
        assert run(Table.open("memory://table", config=Config())) == rows
        assert store.round_trips <= depth, name


@pytest.mark.parametrize("at_once", [1, 4])
def test_remote_and_local_reads_are_equal(tmp_path, at_once):
    rows = many_files(tmp_path, 5, blob=40)
    options = ReadOptions(files_at_once=at_once)
    remote, _ = metered(rows)
    for where in (None, "id >= 3000 and a > 0.5", "a > 0.999", "id = 4321"):
        found = read(remote, where, options=options)
        assert found.equals(read(rows.open(), where, options=options))


@pytest.mark.parametrize("root", ["memory://table", None])
@pytest.mark.parametrize("num_files", [1, 3])
def test_a_flipped_byte_in_a_page_is_an_error(tmp_path, root, num_files):
    table = Table.open(tmp_path)
    for at in range(num_files):
        table.write(rows_of(at, 5000))
    damaged = next(tmp_path.glob("*.parquet"))
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1  # a value of a column of doubles: any bits are valid
    damaged.write_bytes(data)
    if root is not None:
        table = Table(MemoryStore(objects_below(tmp_path), root=root), Config())
    with pytest.raises(DataFileError, match=damaged.name):
        read(table)
