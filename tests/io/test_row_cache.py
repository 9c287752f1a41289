"""The disk cache of row reads: footers and deletion vectors, never data pages, never stale."""

from __future__ import annotations

import pickle

import pytest

from lazydelta import Config, Table
from lazydelta.log import log_store
from lazydelta.store import MemoryStore
from lazydelta.store.layers.disk_cache import DiskCache
from lazydelta.store.layers.metered_store import MeteredStore
from tests.io.test_row_reads import FIELDS, data_calls, objects_below, read, rows_of
from tests.unit.scan.read.tables import Rows

DELETED = {1, 8001}
PLAIN = {"compression": "NONE", "use_dictionary": False}


@pytest.fixture
def rows(tmp_path):
    """A table of two files with eight row groups of half a megabyte each, and two vectors."""
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    for index, vector in enumerate(made.vectors([1], [1])):
        table = rows_of(index * 8000, 8000, blob=512)
        made.file(f"{index}.parquet", table, row_group_size=1000, vector=vector, **PLAIN)
    made.open()
    return made


@pytest.fixture
def opened(rows, tmp_path, monkeypatch):
    """A function that opens the table as a new process would, and returns it with its store."""

    def fresh():
        store = MeteredStore(MemoryStore(objects_below(rows.path)))
        monkeypatch.setattr(log_store, "open_store", lambda *_, **__: store)
        config = Config(cache_directory=str(tmp_path / "cache"))
        return Table.open("memory://table", config=config), store

    return fresh


def kinds(store):
    """Return how many requests went to data files and to files of vectors."""
    paths = [call.path for call in data_calls(store) for _ in range(call.requests)]
    vectors = sum(path.endswith(".bin") for path in paths)
    return len(paths) - vectors, vectors


@pytest.mark.parametrize("arguments", [{"limit": 10}, {"columns": ["id"]}])
def test_a_second_read_requests_no_footer_and_no_vector(opened, arguments):
    found, requests = [], []
    for _ in range(2):
        table, store = opened()
        found.append(read(table, **arguments))
        requests.append(kinds(store))
    assert found[0].equals(found[1])
    files = 1 if "limit" in arguments else 2
    assert requests[0][0] - requests[1][0] == files  # their footers
    assert requests[0][1] > 0
    assert requests[1][1] == 0


def test_no_data_page_is_cached(opened, tmp_path):
    for _ in range(2):
        table, store = opened()
        assert read(table).num_rows == 16_000 - len(DELETED)
    assert store.bytes_read >= 8_000_000
    cached = sum(file.stat().st_size for file in (tmp_path / "cache").iterdir())
    assert cached < 100_000


def test_a_file_that_the_log_replaced_is_read_anew(rows, opened):
    where = "id >= 57000"  # skips every row group of the footers that are cached
    assert read(opened()[0], where, columns=["id"]).num_rows == 0
    size = (rows.path / "0.parquet").stat().st_size
    rows.actions = [a for a in rows.actions if a.get("add", {}).get("path") != "0.parquet"]
    replaced = {"modificationTime": 2_000}
    rows.file(
        "0.parquet", rows_of(50_000, 8000, blob=512), row_group_size=1000, action=replaced, **PLAIN
    )
    rows.open()
    assert (rows.path / "0.parquet").stat().st_size == size, "or else the size identifies it"
    assert read(opened()[0], where, columns=["id"]).num_rows == 1000


def test_a_damaged_block_is_read_from_the_store(opened, tmp_path):
    expected = read(opened()[0], columns=["id"])
    for block in (tmp_path / "cache").iterdir():
        block.write_bytes(block.read_bytes()[:-1] + b"?")
    assert read(opened()[0], columns=["id"]).equals(expected)


def test_a_cached_store_can_be_pickled(tmp_path):
    copy = pickle.loads(pickle.dumps(DiskCache(str(tmp_path), 10_000)))
    assert copy.get("a") is None
