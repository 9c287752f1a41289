"""The builders: deltalake reads what they write."""

from __future__ import annotations

import json

import pytest

from tests.builders import TableBuilder, add, remove
from tests.builders.strategies import live_after
from tests.support import memory_store

deltalake = pytest.importorskip("deltalake")

KINDS = ["classic", "multipart", "v2-json", "v2-parquet", "v2-classic"]


@pytest.mark.parametrize("kind", KINDS)
def test_deltalake_reads_every_kind_of_checkpoint(tmp_path, kind):
    table = TableBuilder(tmp_path, schema={"id": "long", "day": "date"}, partition_by=["day"])
    table.commit("+day=2026-01-01/a +day=2026-01-02/b").commit(
        "-day=2026-01-01/a +day=2026-01-03/c"
    )
    table.checkpoint(kind, stats_parsed=True, partition_values_parsed=True).clean_up(2)
    table.commit("+day=2026-01-04/d")
    peer = deltalake.DeltaTable(str(tmp_path))
    assert peer.version() == 2
    found = [uri.rsplit("/", 2)[1:] for uri in peer.file_uris()]
    assert sorted("/".join(parts) for parts in found) == sorted(path for path, _ in table.live())


def test_shorthand_lines():
    table = TableBuilder(memory_store(), schema={"id": "long", "p": "string"}, partition_by=["p"])
    table.commit("+p=x%2Fy/a#v1 -b +p=__HIVE_DEFAULT_PARTITION__/c !txn")
    kinds = [next(iter(action)) for action in table.commits[0]]
    assert kinds == ["commitInfo", "protocol", "metaData", "add", "remove", "add", "txn"]
    first, _, second = (
        action[kind] for action, kind in zip(table.commits[0][3:6], kinds[3:6], strict=True)
    )
    assert first["partitionValues"] == {"p": "x/y"}
    assert first["deletionVector"]["pathOrInlineDv"].endswith("v1")
    assert second["partitionValues"] == {"p": None}
    with pytest.raises(ValueError, match="starts with none"):
        table.commit("a")


def test_actions_are_written_unchanged():
    table = TableBuilder(memory_store())
    table.commit(add("a", stats={"numRecords": 1}, size=7), remove("b", vector="v"))
    lines = [json.loads(line) for line in table.read(f"{0:020d}.json").splitlines()]
    assert lines[-2]["add"]["size"] == 7
    assert lines[-2]["add"]["stats"] == '{"numRecords": 1}'
    assert lines[-1]["remove"]["deletionVector"]["storageType"] == "u"


def test_a_compacted_commit_has_one_action_per_file():
    table = TableBuilder(memory_store()).commit("+a").commit("+b -a").commit("+a -b")
    table.compact(0, 2)
    lines = [json.loads(x) for x in table.read(f"{0:020d}.{2:020d}.compacted.json").splitlines()]
    files = [
        (kind, action[kind]["path"])
        for action in lines
        for kind in ("add", "remove")
        if kind in action
    ]
    assert sorted(files) == [("add", "a"), ("remove", "b")]


def test_a_store_and_a_directory_get_the_same_files(tmp_path):
    names = []
    for target in (memory_store(), tmp_path):
        table = TableBuilder(target).commit("+a").checkpoint("v2-json").hint().crc().commit("+b")
        names.append((table.names(), table.sidecars()))
    assert names[0] == names[1]


def test_live_files_of_strategies_and_builder_agree():
    commits = ("+a +b", "-a +c#v1", "+a -b", "-c#v1 +c#v2")
    table = TableBuilder(memory_store())
    for line in commits:
        table.commit(line)
    built = {p if v is None else f"{p}#{v[1:].split('@')[0].lstrip('0')}" for p, v in table.live()}
    assert built == live_after(commits) == {"a", "c#v2"}
