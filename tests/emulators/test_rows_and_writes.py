"""Rows and writes in object stores: the same as in a local directory."""

from __future__ import annotations

import uuid

import deltalake
import pyarrow as pa
import pytest

import lazydelta
from lazydelta.store import list_tree, open_store

pytestmark = pytest.mark.emulator


@pytest.fixture(scope="module")
def table_dir(tmp_path_factory):
    """A partitioned table of three files, with a checkpoint."""
    where = tmp_path_factory.mktemp("rows") / "t"
    for number in range(3):
        rows = {"id": list(range(10 * number, 10 * number + 10)), "part": [number] * 10}
        lazydelta.write(where, pa.table(rows), mode="append", partition_by=["part"])
    lazydelta.Table.open(where).checkpoint()
    return where


def by_id(table):
    return table.sort_by("id").to_pylist()


@pytest.mark.parametrize("where", [None, "id >= 25", "part = 1", "id = 1000"])
def test_rows_are_the_same(emulated_table, table_dir, where):
    url, options = emulated_table(table_dir)
    remote = lazydelta.Table.open(url, storage_options=options)
    local = lazydelta.Table.open(table_dir)
    expected = by_id(local.scan(where=where).to_arrow())
    assert by_id(remote.scan(where=where).to_arrow()) == expected
    assert remote.count(where=where) == len(expected)
    assert remote.head(3).num_rows == 3


def test_writes(emulator):
    url, options = f"{emulator.url}/{uuid.uuid4().hex}/a table", emulator.options
    for number in range(12):  # across a checkpoint
        lazydelta.write(url, {"id": [number]}, mode="append", storage_options=options)
    table = lazydelta.Table.open(url, storage_options=options)
    assert table.version == 11
    assert table.count() == 12
    theirs = deltalake.DeltaTable(url, storage_options=options).to_pyarrow_table()
    assert sorted(theirs["id"].to_pylist()) == list(range(12))
    table.write({"id": [99]}, mode="overwrite")
    assert table.to_arrow()["id"].to_pylist() == [99]
    table.checkpoint()
    assert table.to_arrow()["id"].to_pylist() == [99]
    assert table.snapshot(version=3).count() == 4


def test_creating_an_existing_table_is_refused(emulator):
    url, options = f"{emulator.url}/{uuid.uuid4().hex}", emulator.options
    schema = pa.schema([("id", pa.int64())])
    lazydelta.Table.create(url, schema, storage_options=options)
    with pytest.raises(lazydelta.errors.TableExistsError):
        lazydelta.Table.create(url, schema, storage_options=options)


@pytest.mark.parametrize("where", [None, "part = 'z'"])
def test_vacuum_deletes_what_it_reports(emulator, where):
    url, options = f"{emulator.url}/{uuid.uuid4().hex}/a table", emulator.options
    rows = pa.table({"id": [1, 2, 3], "part": ["x y", "ü%", "z"]})
    for _ in range(2):
        lazydelta.write(url, rows, mode="overwrite", partition_by=["part"], storage_options=options)
    store = open_store(url, options)
    for name in ("part=x y/orphan", "part=z/deep/orphan", "other/orphan", "part=x y/_delta_log/0"):
        store.write(name, b"x", overwrite=True)
    table = lazydelta.Table.open(url, storage_options=options)
    table.snapshot()

    def names():
        pages = list_tree(store)
        found = {path for page in pages for path in page.column("path").to_pylist()}
        return {path for path in found if "_delta_log" not in path}

    before = names()
    result = table.vacuum(0, "full", where=where, force=True, dry_run=False)
    gone = before - names()
    assert gone == set(result.paths)
    assert result.files_deleted == len(gone)
    assert all(path.startswith("part=z/") or where is None for path in gone)
    assert not any(path.startswith("part=x y/") for path in gone), "it has a table of its own"
    assert table.to_arrow().num_rows == 3
    assert bool(result.warnings) is (where is None)
