from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Config, ReadOptions, Table, WriteOptions
from lazydelta.errors import ConfigError, ResumeTokenError
from lazydelta.store import MemoryStore
from tests.support import memory_store

MAPPED = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def rows(first, count):
    ids = range(first, first + count)
    return pa.table({"id": list(ids), "part": [n % 2 for n in ids], "text": [f"t{n}" for n in ids]})


def build(store):
    """Write files of several row groups in two partitions, some rows deleted, and a checkpoint."""
    writing = Config(write=WriteOptions(row_group_rows=7), write_checkpoints=False)
    table = Table(store, writing)
    table.write(rows(0, 60), partition_by=["part"], properties=MAPPED)
    table.delete("id in (3, 4, 5, 6, 7, 8, 9, 30)")
    table.maintain.checkpoint() if hasattr(table, "maintain") else table.checkpoint()
    table.write(rows(100, 10))
    table.update({"text": "'new'"}, where="id = 41")
    table.write(rows(200, 25))
    return store


@pytest.fixture(scope="module", params=["local", "remote"])
def store(request):
    return build(memory_store(local=request.param == "local"))


def open_table(store, batch_rows=5):
    return Table(store, Config(read=ReadOptions(batch_rows=batch_rows)))


def all_rows(stream):
    return [row for batch, _ in stream for row in batch.to_pylist()]


SCANS = {
    "all": {},
    "reverse": {"strategy": "reverse"},
    "forward": {"strategy": "forward"},
    "filter": {"where": "id % 3 = 0 or id > 205"},
    "range": {"where": "id > 40 and id < 206"},
    "partition": {"where": "part = 1 and id <> 101"},
    "columns": {"columns": ["text", "part"]},
    "no columns": {"columns": []},
    "limit": {"limit": 37},
    "limit of a filter": {"where": "id > 20", "limit": 30},
    "positions": {"options": ReadOptions(row_index_column="at", file_column_name="of")},
    "views": {"options": ReadOptions(schema_force_view_types=True, batch_rows=4)},
    "partitions as dictionaries": {"options": ReadOptions(wrap_partition_values=True)},
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("wishes", SCANS.values(), ids=SCANS)
def test_rows_continue_after_every_batch(store, wishes):
    every = open_table(store).scan(**wishes).to_arrow().to_pylist()
    batches = list(open_table(store).scan(**wishes).resumable_rows())
    assert len(batches) > 3
    before = []
    for batch, token in batches:
        before += batch.to_pylist()
        after = all_rows(open_table(store, batch_rows=3).scan(**wishes).resume(token))
        assert before + after == every
    assert before == every


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_shares_have_each_row_once(store, strategy, count):
    scan = open_table(store).scan("id <> 12", strategy=strategy)
    found = []
    for token in scan.shares(count, "rows"):
        batches = list(open_table(store).scan("id <> 12").resume(token))
        share = [row for batch, _ in batches for row in batch.to_pylist()]
        middle = len(batches) // 2
        before = [row for batch, _ in batches[:middle] for row in batch.to_pylist()]
        rest = token if not middle else batches[middle - 1].token
        assert before + all_rows(open_table(store).scan("id <> 12").resume(rest)) == share
        found += share
    every = scan.to_arrow().to_pylist()
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in every)


def test_a_scan_with_a_limit_has_no_shares(store):
    with pytest.raises(ConfigError, match="limit"):
        open_table(store).scan(limit=5).shares(2, "rows")


class ReadRanges(MemoryStore):
    """A remote store that keeps the ranges of data files that were read."""

    native_files = False

    def __init__(self, store):
        super().__init__(root="memory://table")
        self._objects = store._objects
        self.ranges = []

    def read_ranges(self, path, ranges):
        self.ranges += [(path, start) for start, _ in ranges if not path.startswith("_delta_log")]
        return super().read_ranges(path, ranges)


def test_delivered_files_are_not_opened_and_delivered_row_groups_not_read():
    written = memory_store()
    table = Table(written, Config(write=WriteOptions(row_group_rows=100)))
    for first in (0, 1000, 2000):
        ids, values = range(first, first + 1000), random.Random(first)
        blobs = [values.randbytes(2000) for _ in ids]
        table.write(pa.table({"id": list(ids), "blob": pa.array(blobs, pa.binary())}))
    config = Config(read=ReadOptions(batch_rows=50, file_column_name="of"))
    stream = Table(written, config).scan(strategy="reverse").resumable_rows()
    batches = [next(stream) for _ in range(32)]  # 600 rows of the second file
    stream.close()
    first, second = (batches[index].batch.column("of")[0].as_py() for index in (0, -1))
    metered = ReadRanges(written)
    resumed = Table(metered, config).scan().resume(batches[-1].token)
    assert len(all_rows(resumed)) == 1400
    reads = {
        path: min(start for p, start in metered.ranges if p == path) for path, _ in metered.ranges
    }
    metadata = pq.ParquetFile(pa.BufferReader(written.read(second))).metadata
    assert first not in reads
    assert reads[second] >= metadata.row_group(5).column(0).data_page_offset - 2000
    assert len(reads) == 2


def test_rows_before_a_resumed_row_group_do_not_count_toward_a_limit():
    written = memory_store(local=False)
    table = Table(written, Config(write=WriteOptions(row_group_rows=7)))
    for first in (0, 100, 200):
        table.write(rows(first, 30))
    batches = list(open_table(written).scan(limit=45).resumable_rows())
    for number, (_, token) in enumerate(batches, 1):
        left = all_rows(open_table(written).scan(limit=45).resume(token))
        assert len(all_rows(batches[:number])) + len(left) == 45


def test_a_token_of_a_scan_with_another_limit_is_refused(store):
    token = next(open_table(store).scan(limit=20).resumable_rows()).token
    with pytest.raises(ResumeTokenError, match="another scan"):
        open_table(store).scan(limit=21).resume(token)


def test_data_files_with_fewer_rows_than_were_delivered_are_an_error():
    written = memory_store()
    table = Table(written, Config())
    table.write(rows(0, 50))
    *_, (_, token) = open_table(written).scan().resumable_rows()
    (path,) = [file.path for file in table.scan().files()]
    data = io.BytesIO()
    pq.write_table(rows(0, 3), data)
    written.write(path, data.getvalue(), overwrite=True)
    with pytest.raises(ResumeTokenError, match="were changed"):
        all_rows(open_table(written).scan().resume(token))
