"""A damaged newest commit is refused before anything is written, though the checksum is intact."""

from __future__ import annotations

import pytest

import lazydelta as ld
from lazydelta.errors import LogCorruptError
from lazydelta.log import tuning
from lazydelta.store import MemoryStore
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.transaction import validate_newest_commit
from tests.unit.transaction.support import append, base_of, make_table, run, versions

DAMAGE = {
    "empty": lambda _: b"",
    "blank": lambda _: b" \n\n",
    "cut": lambda data: data[: len(data) - 20],
    "cut-in-the-first-line": lambda data: data[:30],
    "garbage": lambda data: b"\x00\xff" * len(data),
    "html": lambda _: b"<html>503</html>\n",
    "no-object": lambda _: b"[1]\n",
}


def damaged(directory, damage):
    for n in range(3):
        ld.write(directory, {"x": [n]}, "append")
    newest = directory / "_delta_log" / f"{2:020d}.json"
    assert newest.with_suffix(".crc").exists()
    newest.write_bytes(damage(newest.read_bytes()))
    return newest


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.write({"x": [9]}),
        lambda table: table.write({"x": [9]}, "overwrite"),
        lambda table: table.alter.set_properties({"mine": "x"}),
    ],
    ids=["append", "overwrite", "alter"],
)
def test_no_version_follows_a_damaged_commit(tmp_path, damage, change):
    newest = damaged(tmp_path, damage)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(LogCorruptError, match="Restore the file from a backup") as caught:
        change(ld.Table.open(tmp_path))
    assert caught.value.file == f"_delta_log/{newest.name}"
    assert caught.value.version == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_the_end_of_a_huge_commit_is_validated(monkeypatch):
    store = make_table()
    assert run(append(), store).version == 1
    path = f"_delta_log/{1:020d}.json"
    data = bytes(store.read(path))
    monkeypatch.setattr(tuning, "STREAMED_BYTES", 100)
    monkeypatch.setattr(tuning, "BLOCK_BYTES", len(data) - 30)
    validate_newest_commit(base_of(store))
    store.write(path, data[:-20], overwrite=True)
    with pytest.raises(LogCorruptError, match="its last line"):
        run(append(), store)
    assert versions(store) == [0, 1]


def test_a_healthy_commit_is_read_once_for_an_append():
    store = MeteredStore(MemoryStore())
    table = ld.Table(store, ld.Config())
    for n in range(3):
        table.write({"x": [n]})
    store.reset()
    table.write({"x": [9]})
    reads = [call.path for call in store.calls if call.operation == "read"]
    assert reads.count(f"_delta_log/{2:020d}.json") == 1
