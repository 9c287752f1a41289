from __future__ import annotations

import numpy as np
import pytest

from lazydelta import Config
from lazydelta.errors import LogCorruptError
from lazydelta.log import CommitReader, list_log, tuning
from tests.builders import TableBuilder
from tests.support import memory_store


def reader_of(*commits, local=True, **config):
    store = memory_store(local=local)
    table = TableBuilder(store)
    for line in commits:
        table.commit(line)
    files = [file for file in list_log(store) if file.kind.value == "commit"]
    return CommitReader(store, Config(**config)), files[::-1]


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("window", [1, 2, 1000])
def test_batches_are_newest_first_with_versions(local, window):
    reader, files = reader_of(
        *(f"+a{n} -b{n}" for n in range(25)), local=local, reverse_window_commits=window
    )
    versions, paths = [], []
    for batch in reader.batches(files):
        assert batch.complete
        versions += batch.versions.tolist()
        paths += [p for p in batch.add.field("path").to_pylist() if p]
        assert not (
            batch.add.is_valid().to_numpy(False) & batch.remove.is_valid().to_numpy(False)
        ).any()
    assert versions == sorted(versions, reverse=True)
    assert paths == [f"a{n}" for n in reversed(range(25))]


def test_kinds_of_other_actions():
    reader, files = reader_of("+a", "!txn !domainMetadata !cdc !newThing")
    kinds = {(o.version, o.kind) for batch in reader.batches(files) for o in batch.others}
    assert kinds == {
        (0, "commitInfo"), (0, "protocol"), (0, "metaData"), (1, "commitInfo"), (1, "txn"),
        (1, "domainMetadata"), (1, "cdc"), (1, "unknown"),
    }  # fmt: skip


def test_a_large_commit_is_split_at_line_ends(monkeypatch):
    monkeypatch.setattr(tuning, "FIRST_BLOCK_BYTES", 200)
    monkeypatch.setattr(tuning, "BLOCK_BYTES", 400)
    monkeypatch.setattr(tuning, "STREAMED_BYTES", 1000)
    reader, files = reader_of("+z", " ".join(f"+f{n:03d}" for n in range(100)))
    batches = list(reader.batches(files))
    assert len(batches) > 5
    # The last block of the commit is complete, even if it is empty.
    end = [batch.complete for batch in batches].index(True)
    of_newest = batches[: end + 1]
    assert not any(0 in batch.versions for batch in of_newest)
    assert all(0 in batch.versions for batch in batches[end + 1 :])
    assert all(len(np.unique(batch.versions)) <= 1 for batch in of_newest)
    paths = [p for batch in of_newest for p in batch.add.field("path").to_pylist() if p]
    assert paths == [f"f{n:03d}" for n in range(100)]


def test_find_returns_the_requested_kinds():
    reader, files = reader_of("+a", "+b !txn")
    found = reader.find(files[0], ("txn", "metaData"))
    assert found["txn"][0]["appId"] == "app"
    assert found["metaData"] == []
    assert reader.find(files[1], ("protocol",))["protocol"][0]["minReaderVersion"] == 3


def test_find_ignores_action_names_inside_other_actions():
    store = memory_store()
    table = TableBuilder(store).commit("+a")
    table.commit(
        {"commitInfo": {"note": {"metaData": {"id": "x"}}, "text": '"metaData"'}}, info=False
    )
    newest = list_log(store)[-1]
    assert CommitReader(store, Config()).find(newest, ("metaData",)) == {"metaData": []}


def test_removes_are_found_without_decoding_other_lines(monkeypatch):
    reader, files = reader_of("+a", "-a +b", "+remove -b", "!txn")
    found = [
        (version, path)
        for batch in reader.removes(files)
        for version, path in zip(
            batch.versions.tolist(), batch.remove.field("path").to_pylist(), strict=True
        )
        if path is not None
    ]
    assert found == [(2, "b"), (1, "a")]
    monkeypatch.setattr(tuning, "BLOCK_BYTES", 1)
    monkeypatch.setattr(tuning, "STREAMED_BYTES", 1)
    again = [
        path for batch in reader.removes(files) for path in batch.remove.field("path").to_pylist()
    ]
    assert [path for path in again if path is not None] == ["b", "a"]


def test_a_remove_with_an_escaped_name_is_found():
    store = memory_store()
    table = TableBuilder(store).commit("+a")
    table.write(f"{1:020d}.json", b'{"rem\\u006fve":{"path":"a"}}\n')
    files = [file for file in list_log(store) if file.kind.value == "commit"]
    (batch,) = CommitReader(store, Config()).removes(files[::-1])
    assert batch.remove.field("path").drop_null().to_pylist() == ["a"]


def test_a_damaged_remove_names_its_commit():
    store = memory_store()
    table = TableBuilder(store).commit("+a")
    table.write(f"{1:020d}.json", b'{"remove":{"path":7}}\n')
    files = [file for file in list_log(store) if file.kind.value == "commit"]
    with pytest.raises(LogCorruptError, match=f"{1:020d}.json"):
        list(CommitReader(store, Config()).removes(files[::-1]))
