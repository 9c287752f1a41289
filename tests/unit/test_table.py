from __future__ import annotations

import pytest

from lazydelta import Config, LazyDeltaScanner, LazyScanConfig, Table, WriteOptions
from lazydelta.errors import ConfigError, DeltaError
from lazydelta.store import MeteredStore
from lazydelta.testing import TableBuilder
from tests.support import memory_store, scanner


@pytest.fixture
def where(tmp_path):
    table = TableBuilder(tmp_path, schema={"id": "long", "day": "date"}, partition_by=["day"])
    table.commit("+day=2026-01-01/a +day=2026-01-02/b").checkpoint().commit("+day=2026-01-02/c%20d")
    return tmp_path


def test_opening_reads_nothing(where):
    store = MeteredStore(memory_store())
    table = Table(store, Config())
    assert store.requests == 0
    assert table.url == "/memory"
    assert repr(Table.open(where)) == f"Table({str(where)!r})"


def test_files_and_addresses_of_the_newest_version(where):
    table = Table.open(where)
    assert table.version() == 1
    assert sorted(table.files()) == ["day=2026-01-01/a", "day=2026-01-02/b", "day=2026-01-02/c d"]
    filters = [("day", "=", "2026-01-02")]
    assert sorted(table.files(filters)) == ["day=2026-01-02/b", "day=2026-01-02/c d"]
    assert all(str(where) in uri for uri in table.file_uris(filters))


def test_file_views_take_a_predicate_a_limit_and_a_strategy(where):
    views = Table.open(where).file_views("day = '2026-01-02'", 1, "reverse")
    assert [view.path for view in views] == ["day=2026-01-02/c d"]


def test_an_older_version_is_scanned_like_the_newest(where):
    snapshot = Table.open(where).snapshot(0)
    assert (snapshot.version, snapshot.partition_columns) == (0, ("day",))
    assert len(list(snapshot.scan().files())) == 2
    assert "version=0" in repr(snapshot)


def test_a_remote_table_is_never_opened_for_what_is_no_address():
    with pytest.raises(DeltaError):
        Table.open("nonsense://x/y").snapshot()


def test_the_scanner_of_the_design_takes_its_own_names(where):
    assert scanner(where, predicate="day = '2026-01-01'") == ["day=2026-01-01/a"]
    assert scanner(where, limit=1, strategy="reverse") == ["day=2026-01-02/c d"]
    assert len(scanner(where, version=0)) == 2
    wishes = {
        "batch_size": 1, "remove_set_memory_limit": 0, "enable_fallback": False,
        "commit_read_parallelism": 1, "checkpoint_row_groups_per_batch": 1,
    }  # fmt: skip
    assert len(scanner(where, **wishes)) == 3


def test_the_scanner_pins_its_version_at_the_first_call(where):
    lazy = LazyDeltaScanner(where, LazyScanConfig(strategy="reverse"))
    assert len(list(lazy.scan_files())) == 3
    (where / "_delta_log" / f"{2:020d}.json").write_text('{"add":{"path":"e"}}\n')
    assert len(list(lazy.scan_files())) == 3
    assert lazy.explain()["version"] == 1
    assert len(list(LazyDeltaScanner(where).scan_files())) == 4


@pytest.mark.parametrize(
    "ask",
    [
        lambda table, _: table.scan(options={"batch_rows": 5}),
        lambda table, _: table.to_arrow(WriteOptions()),
        lambda table, _: table.scan(columns=5),
        lambda table, _: table.scan(columns=[["id"]]),
        lambda table, _: table.history(-1),
        lambda table, _: table.history("3"),
        lambda table, _: table.check("1"),
        lambda table, _: table.checkpoint("1"),
        lambda table, _: table.compact_log("0", 1),
        lambda table, _: table.scan().page("2"),
        lambda table, _: table.alter.add_columns("x int", after="id", first=True),
        lambda _, path: Table.open(path, config={"batch_rows": 5}),
        lambda _, path: Table.open(path, storage_options="key"),
        lambda *_: Table.open(None),
        lambda *_: Table.open(b"/lake"),
        lambda *_: Table.open("a\0b"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused_by_name(where, ask):
    with pytest.raises(ConfigError):
        ask(Table.open(where), where)


@pytest.mark.parametrize(
    "ask", [lambda t: t.snapshot(-1), lambda t: t.check(-1), lambda t: t.checkpoint(-1)]
)
def test_versions_start_at_zero(where, ask):
    with pytest.raises(ConfigError, match="version: cannot be -1: versions start at 0"):
        ask(Table.open(where))
