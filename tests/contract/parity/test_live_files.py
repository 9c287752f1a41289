"""The live files of a sequence of commits are the same for every layout of the log."""

from __future__ import annotations

import itertools

import pytest

from lazydelta import Config
from tests.builders import TableBuilder
from tests.support import READERS, memory_store, scanner

CASES = [
    pytest.param(["+a +b", "-a"], ["b"], id="a-removed-file-is-not-live"),
    pytest.param(["+a", "+b", "+c"], ["a", "b", "c"], id="appends-add-up"),
    pytest.param(["+a", "-a", "+a"], ["a"], id="a-file-added-after-its-remove-is-live"),
    pytest.param(["+a", "-a", "+a", "-a"], [], id="the-newest-action-wins"),
    pytest.param(["+a", "+a", "+a"], ["a"], id="a-file-added-again-is-listed-once"),
    pytest.param(["+a", "-a +a#v1"], ["a#v1"], id="a-new-vector-replaces-the-file"),
    pytest.param(
        ["+a#v1", "-a#v1 +a#v2", "-a#v2 +a#v3"],
        ["a#v3"],
        id="the-newest-of-several-vectors-wins",
    ),
    pytest.param(["+a#v1", "-a#v1 +a"], ["a"], id="a-file-may-lose-its-vector"),
    pytest.param(["+a", "-a#v1"], ["a"], id="a-remove-under-another-vector-does-nothing"),
    pytest.param(["+a#v1 +b", "-a"], ["a#v1", "b"], id="a-remove-without-its-vector-does-nothing"),
    pytest.param(["+a", "-b"], ["a"], id="a-remove-of-an-unknown-file-does-nothing"),
    pytest.param(["+a", "-a +a"], ["a"], id="within-a-commit-an-add-wins-over-a-remove"),
    pytest.param(["+a", "+a -a"], ["a"], id="within-a-commit-the-order-of-lines-does-not-matter"),
    pytest.param(["+a +b +c"], ["a", "b", "c"], id="version-0-is-read-without-a-checkpoint"),
    pytest.param(["+a", "", "-a", ""], [], id="commits-without-files-change-nothing"),
    pytest.param(["", ""], [], id="a-table-without-files"),
    pytest.param(
        ["+a", "+b !metaData", "-a !txn !domainMetadata", "+c !protocol", "+d !somethingNew"],
        ["b", "c", "d"],
        id="other-actions-change-no-files",
    ),
    pytest.param(
        ["+A +B +C", "+D", "+E", "-D", "", ""],
        ["A", "B", "C", "E"],
        id="worked-example",
    ),
    pytest.param(
        ["+a +b", "-a -b +c", "-c +a +b", "-a"],
        ["b"],
        id="a-restored-version",
    ),
]

LAYOUTS = {
    "commits-only": lambda table, last: None,
    "checkpoint-at-the-start": lambda table, last: table.checkpoint(version=0),
    "checkpoint-at-the-end": lambda table, last: table.checkpoint().hint(),
    "checkpoint-in-between": lambda table, last: table.checkpoint(version=last // 2).hint(),
    "small-row-groups": lambda table, last: table.checkpoint(version=last // 2, row_group_rows=1),
    "multi-part": lambda table, last: table.checkpoint("multipart", version=last // 2, parts=3),
    "v2-json": lambda table, last: table.checkpoint("v2-json", version=last // 2, parts=2).hint(),
    "v2-json-inline": lambda table, last: table.checkpoint("v2-json", version=last // 2, parts=0),
    "v2-parquet": lambda table, last: table.checkpoint("v2-parquet", version=last // 2, parts=2),
    "v2-parquet-inline": lambda table, last: table.checkpoint("v2-parquet", version=0, parts=0),
    "v2-classic": lambda table, last: table.checkpoint("v2-classic", version=last // 2, parts=3),
    "no-tombstones": lambda table, last: table.checkpoint(version=last // 2, removes=False),
    "cleaned-up": lambda table, last: table.checkpoint(version=last // 2).clean_up(last // 2 + 1),
    "checksum": lambda table, last: table.crc().checkpoint(version=0),
    "compacted": lambda table, last: table.compact(0, last) if last else None,
    "compacted-over-a-checkpoint": lambda table, last: (
        table.checkpoint(version=0).compact(1, last) if last > 1 else None
    ),
}
FEW_LAYOUTS = ["commits-only", "small-row-groups", "multi-part", "v2-json", "compacted"]


def built(store, commits, layout):
    table = TableBuilder(store)
    for line in commits:
        table.commit(line)
    LAYOUTS[layout](table, table.version)
    return table


@pytest.mark.sample(3)
@pytest.mark.parametrize("layout", FEW_LAYOUTS)
@pytest.mark.parametrize(("commits", "expected"), CASES)
def test_live_files(commits, expected, layout):
    store = memory_store()
    built(store, commits, layout)
    for name, read in READERS.items():
        assert sorted(read(store)) == expected, name


@pytest.mark.parametrize(("commits", "expected"), CASES)
def test_the_scanner_api_gives_the_same_files(tmp_path, commits, expected):
    built(tmp_path, commits, "checkpoint-in-between")
    for strategy in ("auto", "reverse", "forward"):
        assert sorted(scanner(tmp_path, strategy=strategy)) == expected, strategy


CONFIGS = {
    "every-key-on-disk": Config(remove_set_memory_limit=0),
    "a-saturated-bloom-filter": Config(remove_set_capacity=1, remove_set_false_positive_rate=0.99),
    "tiny-bloom-and-all-on-disk": Config(
        remove_set_memory_limit=0, remove_set_capacity=1, remove_set_false_positive_rate=0.99
    ),
    "one-commit-at-a-time": Config(reverse_window_commits=1),
    "one-row-at-a-time": Config(batch_rows=1, prefetch_batches=1),
    "seven-rows-at-a-time": Config(batch_rows=7),
    "one-row-group-at-a-time": Config(checkpoint_row_groups_per_batch=1),
    "without-compactions": Config(use_log_compaction=False),
}
LONG = [
    "+a +b +c +d",
    "-a +e +b#v1 -b",
    "+f +g -c",
    "-b#v1 +b#v2 +a",
    "+h +i +j -d",
    "-e +e -h",
    "+c",
    "-i +k +g",
]
LONG_LIVE = ["a", "b#v2", "c", "e", "f", "g", "j", "k"]


@pytest.mark.sample(3)
@pytest.mark.parametrize("layout", FEW_LAYOUTS)
@pytest.mark.parametrize("config", CONFIGS)
def test_configuration_does_not_change_the_result(layout, config):
    store = memory_store()
    built(store, LONG, layout)
    for name, read in READERS.items():
        assert sorted(read(store, CONFIGS[config])) == LONG_LIVE, name


@pytest.mark.sample(3)
@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_live_files_of_a_long_history(layout, local):
    store = memory_store(local=local)
    built(store, LONG, layout)
    for name, read in READERS.items():
        assert sorted(read(store)) == LONG_LIVE, name


@pytest.mark.sample(3)
@pytest.mark.parametrize("layout", FEW_LAYOUTS)
@pytest.mark.parametrize("rows", [1, 1000])
def test_a_limit_returns_distinct_live_files(layout, rows):
    store = memory_store()
    built(store, LONG, layout)
    config = Config(batch_rows=rows)
    for limit, (name, read) in itertools.product([0, 1, 3, 8, 9], READERS.items()):
        found = read(store, config, limit)
        assert len(found) == min(limit, len(LONG_LIVE)), name
        assert len(set(found)) == len(found), name
        assert set(found) <= set(LONG_LIVE), name


def test_reverse_returns_the_newest_commits_first():
    store = memory_store()
    table = TableBuilder(store).commit("+z").checkpoint()
    for number in range(40):
        table.commit(f"+{number:02d}a +{number:02d}b")
    found = READERS["reverse"](store)
    newest_first = [name[:2] for name in found[:-1]]
    assert newest_first == sorted(newest_first, reverse=True)
    assert found[-1] == "z"
    assert {name[:2] for name in READERS["reverse"](store, limit=4)} == {"39", "38"}


def test_forward_returns_the_checkpoint_first():
    store = memory_store()
    TableBuilder(store).commit("+a +b").checkpoint().commit("+c -a")
    assert READERS["forward"](store) == ["b", "c"]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "trip", ["!txn", "!metaData", "!protocol", "!domainMetadata", "!cdc", "!odd", "+t#v1 -t"]
)
@pytest.mark.parametrize("read", [READERS["strict-reverse"], READERS["strict-forward"]])
# Commits 3 and 5 have only adds, one of a live file; 2 and 4 have removes too.
@pytest.mark.parametrize("at", [1, 2, pytest.param(3, marks=pytest.mark.long), 4, 5])
def test_a_fallback_in_mid_stream_returns_each_file_once(trip, read, at):
    commits = ["+t", "+a +b", "+c -a", "+d +b", "-c +e", "+f +a"]
    commits[at] += f" {trip}"
    live = {"b", "d", "e", "f", "a", "t#v1" if "#" in trip else "t"}
    for checkpoint, rows in itertools.product([None, at - 1, at], [1, 1000]):
        store = memory_store()
        table = TableBuilder(store)
        for line in commits:
            table.commit(line)
        if checkpoint is not None:
            table.checkpoint(version=checkpoint)
        config = Config(reverse_window_commits=rows, batch_rows=rows)
        for limit in (None, 3):
            found = read(store, config, limit)
            assert len(found) == len(set(found)) == min(limit or 6, 6)
            assert set(found) <= live
