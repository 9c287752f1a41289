"""A table has the same files in a local directory and in object stores."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

import lazydelta
from lazydelta.store import open_store

pytestmark = pytest.mark.emulator

# Values that are escaped in directory names, and again in the log.
VALUES = ["plain", "with space", "a/b", "12:30", "100%", "a+b", "zürich", "q?x#y=z"]


@pytest.fixture(scope="module")
def table_dir(tmp_path_factory):
    """A partitioned table with a checkpoint between appends and deletes."""
    where = tmp_path_factory.mktemp("smoke") / "t"
    for number in range(6):
        data = {"x": VALUES, "n": [number * 100 + row for row in range(len(VALUES))]}
        deltalake.write_deltalake(where, pa.table(data), mode="append", partition_by=["x"])
        table = deltalake.DeltaTable(where)
        if number == 2:
            table.delete("x = 'plain'")
            table.create_checkpoint()
        if number == 4:
            table.delete("x = 'a+b'")
    return where


def described(files):
    return sorted((f.path, f.size, f.num_records, tuple(f.partition_values.items())) for f in files)


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_a_scan_returns_the_same_files(emulated_table, table_dir, strategy):
    url, options = emulated_table(table_dir)
    local = lazydelta.Table.open(table_dir)
    remote = lazydelta.Table.open(url, storage_options=options)
    expected = described(local.scan(strategy=strategy).files())
    found = list(remote.scan(strategy=strategy).files())
    assert described(found) == expected
    assert len(expected) == deltalake.DeltaTable(table_dir).get_add_actions().num_rows
    for file in found:
        assert file.uri.startswith(url.replace(" ", "%20") + "/x=")


def test_filter_and_time_travel(emulated_table, table_dir):
    url, options = emulated_table(table_dir)
    remote = lazydelta.Table.open(url, storage_options=options)
    local = lazydelta.Table.open(table_dir)
    where = lazydelta.col("x") == "12:30"
    assert described(remote.scan(where=where).files()) == described(local.scan(where=where).files())
    old = remote.snapshot(version=1)
    assert old.version == 1
    assert described(old.scan().files()) == described(local.snapshot(version=1).scan().files())


def test_listed_files_can_be_opened(emulated_table, table_dir):
    """The store opens a file by the path that the scan returns."""
    url, options = emulated_table(table_dir)
    store = open_store(url, options)
    for file in lazydelta.Table.open(url, storage_options=options).scan().files():
        assert store.head(file.path).size == file.size


def test_a_missing_table_is_an_error(emulator):
    table = lazydelta.Table.open(f"{emulator.url}/nothing-here", storage_options=emulator.options)
    with pytest.raises(lazydelta.errors.TableNotFoundError, match="nothing-here"):
        list(table.scan().files())
