from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import lazydelta as ld
from lazydelta import Config, Scan, Snapshot, Table, WriteOptions
from lazydelta import scanner as design
from lazydelta.errors import ConfigError, DeltaError
from lazydelta.scanner import LazyDeltaScanner, LazyScanConfig
from lazydelta.store.layers.metered_store import MeteredStore
from tests.builders import TableBuilder
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


@pytest.fixture
def rows(tmp_path):
    ld.write(tmp_path, {"id": [1, 2, 3], "name": ["a", "b", "c"]}, name="three")
    return Table.open(tmp_path)


@pytest.mark.parametrize("of", [lambda table: table, lambda table: table.snapshot()])
def test_a_table_and_a_snapshot_have_the_same_short_cuts(rows, of):
    source = of(rows)
    assert source.version == 0
    assert source.columns == ("id", "name")
    assert source.metadata.name == "three"
    assert (source.count(), source.count(where="id > 1")) == (3, 2)
    assert source.head(2).num_rows == 2
    assert source.schema.to_arrow() == source.to_arrow().schema == source.head().schema


def test_one_snapshot_class(rows):
    assert type(rows.snapshot()) is Snapshot
    assert type(Table.open_bundle(rows.snapshot().pin())) is Snapshot
    assert type(rows.scan().snapshot) is Snapshot
    assert isinstance(rows.snapshot().scan(), Scan)


def test_both_writes_have_the_same_arguments():
    of_table = inspect.signature(Table.write).parameters
    of_module = dict(inspect.signature(ld.write).parameters)
    own = ("storage_options", "config", "credential")
    assert [of_module.pop(name).default for name in own] == [None, None, None]
    assert list(of_table)[1:] == list(of_module)[1:]
    for name in list(of_table)[1:]:
        assert of_table[name] == of_module[name]


def test_a_limit_counts_rows_and_files_have_their_own(where):
    table = Table.open(where)
    assert len(list(table.scan().files(limit=1))) == 1
    assert sum(batch.num_rows for batch in table.scan().file_batches(limit=2)) == 2
    limited = table.scan(limit=1)
    for ask in (limited.files, limited.file_batches, limited.page):
        with pytest.raises(ConfigError, match=r"counts rows; .*files\(limit"):
            ask()
    with pytest.raises(ConfigError, match="integer >= 0"):
        table.scan().files(limit=-1)


def test_a_limit_of_files_is_explained_and_leaves_the_scan_as_it_was(where):
    scan = Table.open(where).scan()
    before = scan.strategy
    list(scan.files(limit=1))
    plan = scan.explain()["plan"]
    assert (plan["file_limit"], plan["row_limit"], plan["strategy"]) == (1, None, "reverse")
    list(scan.files())
    assert scan.explain()["plan"]["file_limit"] is None
    assert scan.strategy == scan.explain()["plan"]["strategy"] == before


# --- tab completion

_OUTPUTS = {
    *("register", "scan_polars", "to_arrow", "to_duckdb", "to_pandas", "to_polars"),
    *("to_pyarrow_dataset", "to_reader"),
}


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_completion_of_the_module_offers_the_public_names():
    assert dir(ld) == sorted(ld.__all__)
    program = "import lazydelta; print(*dir(lazydelta))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == sorted(ld.__all__)


def test_completion_of_a_table(rows):
    assert public(dir(rows)) - _OUTPUTS == {
        *("alter", "changes", "check", "checkpoint", "columns", "compact_log", "count", "create"),
        *("delete", "merge", "update"),
        *("cleanup_log", "health", "repair", "restore", "vacuum"),
        *("clone", "generate_manifest", "optimize", "purge"),
        *("head", "history", "metadata", "open", "open_bundle", "scan", "schema", "snapshot"),
        *("url", "version", "write"),
    }


def test_completion_of_a_snapshot(rows):
    assert public(dir(rows.snapshot())) - _OUTPUTS == {
        *("check_retention", "clustering_columns", "columns", "count", "domain_metadata"),
        *("estimated_files", "head", "metadata", "num_files", "partition_columns", "pin"),
        *("properties", "protocol", "scan", "schema", "transactions", "version"),
    }


def test_completion_of_a_scan(rows):
    assert public(dir(rows.scan())) - _OUTPUTS == {
        *("columns", "count", "explain", "file_batches", "file_schema", "files", "limit"),
        *("metrics", "min_max", "options", "page", "partition_values", "predicate", "snapshot"),
        *("strategy", "to_batches"),
        *("file_record_schema", "resumable_files", "resumable_rows", "resume", "shares"),
    }


# --- versions


def test_an_older_version_is_scanned_like_the_newest(where):
    snapshot = Table.open(where).snapshot(0)
    assert (snapshot.version, snapshot.partition_columns) == (0, ("day",))
    assert len(list(snapshot.scan().files())) == 2
    assert "version=0" in repr(snapshot)


def test_a_remote_table_is_never_opened_for_what_is_no_address():
    with pytest.raises(DeltaError):
        Table.open("nonsense://x/y").snapshot()


def test_every_name_of_the_design_is_there():
    assert set(design.__all__) == {
        *("LazyDeltaScanner", "LazyScanConfig", "ScanStrategy", "RemoveSet", "LogicalFileView"),
        *("ReverseCommitReader", "PredicateEvaluator", "StreamingOutput", "FeatureTripwire"),
    }
    assert all(callable(getattr(design, name)) for name in design.__all__)


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
