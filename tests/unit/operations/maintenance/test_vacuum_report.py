"""VACUUM: the report is what the store confirmed; nested tables; the ranges of a listing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import lazydelta as ld
from lazydelta.errors import StoreError
from lazydelta.operations.maintenance import object_listing, tuning
from lazydelta.store import MemoryStore
from lazydelta.testing import TableBuilder
from lazydelta.testing.log_actions import remove
from tests.aged_tables import age, backdate, files_of
from tests.maintained_tables import make, removed_files, rows

# --- the report is what the store confirmed


class RefusingStore(MemoryStore):
    """A remote store that deletes some objects, and refuses others."""

    refused = "b"

    def delete(self, paths):
        for path in paths:
            if self.refused in path.rsplit("/", 1)[-1]:
                raise StoreError(path, "refused")
            super().delete([path])


def dead_files_in(store, names):
    builder = TableBuilder(store)
    builder.commit(*(f"+{name}" for name in names))
    builder.commit(*(remove(name, size=5) for name in names))
    for name in names:
        store.write(name, b"12345", overwrite=True)
    return ld.Table(store, ld.Config())


def test_failures_are_counted_and_not_reported_as_deleted():
    store = RefusingStore()
    table = dead_files_in(store, ["a", "b1", "c", "b2", "d"])
    result = table.vacuum(0, force=True, dry_run=False)
    assert (result.files_deleted, result.files_failed) == (3, 2)
    assert result.bytes_deleted == 15
    assert sorted(result.failures) == ["b1: refused", "b2: refused"]
    assert sorted(path for path in ("a", "b1", "c", "b2", "d") if path in store._objects) == [
        "b1",
        "b2",
    ]
    assert table.history(1)[0].raw["operationParameters"] == {"status": "FAILED"}
    store.refused = "nothing"
    assert table.vacuum(0, force=True, dry_run=False).files_deleted >= 2, "it is tried again"


def test_a_store_that_refuses_everything_is_not_asked_for_each_file():
    store = RefusingStore()
    store.refused = "f"
    table = dead_files_in(store, [f"f{number}" for number in range(100)])
    calls = []
    store.delete = lambda paths: calls.append(paths) or RefusingStore.delete(store, paths)
    result = table.vacuum(0, force=True, dry_run=False)
    assert (result.files_deleted, result.files_failed) == (0, 100)
    assert len(result.failures) == tuning.LISTED_FAILURES
    assert len(calls) == 1 + tuning.FAILURES_IN_A_ROW


def test_a_listing_in_ranges_finds_every_object_once(monkeypatch):
    store = MemoryStore()
    store.lists_from_offsets = True
    names = [f"{letter}{number}/x" for letter in "A_az" for number in range(50)] + ["_delta_log/1"]
    for name in [*names, "_delta_log0", "_delta_lof", "_", "~"]:
        store.write(name, b"", overwrite=True)
    batches = object_listing.listed_objects(store, names)
    listed = [path for batch in batches for path in batch.column("path").to_pylist()]
    expected = [*names[:-1], "_delta_log0", "_delta_lof", "_", "~"]
    assert sorted(listed) == sorted(expected)


def test_lite_mode_says_that_an_object_store_cannot_tell_what_was_gone_before():
    table = dead_files_in(MemoryStore(), ["a", "b"])
    table._store.delete(["a"])
    result = table.vacuum(0, force=True, dry_run=False)
    assert (result.files_deleted, result.may_have_been_gone) == (2, True)
    assert not table.vacuum(0, mode="full", force=True, dry_run=False).may_have_been_gone


def test_lite_mode_on_a_disk_counts_only_files_that_were_there(tmp_path):
    table = make(tmp_path / "t", partition_by=["p"])
    table.delete()
    backdate(table, hours=24 * 20)
    gone, *others = sorted(removed_files(table))
    Path(table.url, gone).unlink()
    result = table.vacuum(dry_run=False)
    assert (result.files_deleted, result.may_have_been_gone) == (len(others), False)


@pytest.mark.parametrize("inventory", [False, True])
def test_a_table_inside_the_table_stays_and_the_report_says_so(tmp_path, inventory):
    table = make(tmp_path / "t")
    for name in ("A", "b/c", "b/c/d"):
        make(tmp_path / "t" / name).write(rows(9))
    for name in ("A-not/x", "b/x"):
        (tmp_path / "t" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "t" / name).write_bytes(b"123")
    for path in (tmp_path / "t").rglob("*"):
        age(path, 24 * 30)
    before = files_of(table)
    objects = object_listing.listed_objects(table._store, [])
    listed = pa.Table.from_batches(objects)
    columns = [*listed.columns, pa.array([False] * len(listed))]
    names = ["path", "length", "modificationTime", "isDir"]
    given = pa.table(dict(zip(names, columns, strict=True))) if inventory else None
    result = table.vacuum(mode="full", inventory=given, dry_run=False)
    assert before - files_of(table) == {"A-not/x", "b/x"}
    assert (result.files_to_delete, result.bytes_deleted) == (2, 6)
    assert sorted(result.paths) == ["A-not/x", "b/x"]
    assert "3 directories with a Delta table of their own: A, b/c, b/c/d" in result.warnings[0]
    assert ld.Table.open(tmp_path / "t" / "b" / "c").to_arrow().num_rows == 8
