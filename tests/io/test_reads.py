"""I/O counts: a lazy scan that reads too much is wrong even if its result is right."""

from __future__ import annotations

import pytest

from lazydelta import Config, Table
from lazydelta.store.layers.metered_store import MeteredStore
from tests.builders import TableBuilder, add
from tests.support import listed, memory_store

DAYS = [f"2026-01-{day:02d}" for day in range(1, 21)]
CHECKPOINT = "_delta_log/00000000000000000000.checkpoint.parquet"


def metered(build, *, local=True):
    """Return a table over a metered store, and the store with its counts reset."""
    store = memory_store(local=local)
    build(TableBuilder(store, schema={"id": "long", "day": "date"}, partition_by=["day"]))
    counted = MeteredStore(store)
    return Table(counted, Config()), counted


def clustered(table, *, files_per_day=50, **options):
    """Build a checkpoint with one date per row group."""
    actions = [
        add(
            f"day={day}/{number:03d}-" + "x" * 60,
            partition_values={"day": day},
            stats={"numRecords": 10, "minValues": {"id": number}, "maxValues": {"id": number + 9}},
        )
        for day in DAYS
        for number in range(files_per_day)
    ]
    table.commit(*actions)
    options = {"row_group_rows": files_per_day, "partition_values_parsed": True} | options
    table.checkpoint(version=0, **options)
    return table


def paths_read(store):
    return set(store.bytes_by_path())


@pytest.mark.parametrize("local", [True, False])
def test_a_limit_met_in_the_tail_with_a_checksum_reads_no_checkpoint(local):
    def build(table):
        clustered(table).commit("+new1 +new2").crc()

    table, store = metered(build, local=local)
    assert sorted(listed(table.scan(), limit=2)) == ["new1", "new2"]
    assert not [path for path in paths_read(store) if "checkpoint.parquet" in path]
    assert store.requests_by_operation().get("open", 0) == 0


def test_a_limit_met_in_the_tail_reads_no_adds_of_the_checkpoint():
    def build(table):
        clustered(table).commit("+new1 +new2").hint(0)

    table, store = metered(build)
    whole = len(store.inner.read(CHECKPOINT))
    scan = table.scan()
    assert sorted(listed(scan, limit=2)) == ["new1", "new2"]
    explained = scan.explain()
    assert explained["checkpoint"]["leaves_opened"] == 0
    assert explained["checkpoint"]["bytes"] == 0
    # Two reads of the footer, and the pages with protocol and metadata.
    footer = int.from_bytes(store.inner.read(CHECKPOINT)[-8:-4], "little")
    pages = store.bytes_by_path()[CHECKPOINT] - footer - 64 * 1024
    assert pages < (whole - footer) / 10


def test_the_first_file_of_a_long_tail_reads_few_commits():
    def build(table):
        clustered(table)
        for number in range(200):
            table.commit(f"+new{number}")
        table.crc()

    table, store = metered(build)
    assert listed(table.scan(), limit=1) == ["new199"]
    commits = [path for path in paths_read(store) if path.endswith(".json")]
    assert len(commits) <= 2


def test_a_limit_met_after_some_row_groups_reads_no_others():
    def build(table):
        clustered(table)

    table, store = metered(build)
    config = Config(batch_rows=50, checkpoint_row_groups_per_batch=1, prefetch_batches=1)
    scan = Table(store, config).scan()
    assert len(listed(scan, limit=60)) == 60
    explained = scan.explain()["checkpoint"]
    assert explained["row_groups"] == len(DAYS) + 1
    # Returned row groups, queued ones, and the ones being read when the limit is met.
    assert explained["row_groups_read"] <= 12


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    "where", ["day = '2026-01-07'", [("day", "=", "2026-01-07")], {"day": "2026-01-07"}]
)
def test_one_partition_of_a_clustered_checkpoint_reads_only_its_row_groups(local, where):
    table, store = metered(clustered, local=local)
    scan = table.scan(where)
    store.reset()
    found = listed(scan)
    assert len(found) == 50
    assert all(path.startswith("day=2026-01-07/") for path in found)
    explained = scan.explain()
    assert explained["checkpoint"]["row_groups"] == 21
    assert explained["checkpoint"]["row_groups_read"] <= 2
    assert explained["files"]["pruned"] == 950
    part = store.bytes_read
    store.reset()
    assert len(listed(table.scan())) == 1000
    assert part < store.bytes_read / 3


def test_one_partition_without_parsed_values_reads_the_predicate_column_first():
    def build(table):
        clustered(table, partition_values_parsed=False)

    table, store = metered(build)
    narrow, whole = table.scan("day = '2026-01-07'"), table.scan()
    assert len(listed(narrow)) == 50
    assert len(listed(whole)) == 1000
    assert narrow.explain()["checkpoint"]["bytes"] < whole.explain()["checkpoint"]["bytes"]


@pytest.mark.parametrize("local", [True, False])
def test_an_unsatisfiable_predicate_reads_no_checkpoint_pages(local):
    table, store = metered(clustered, local=local)
    scan = table.scan("day = '2031-01-01'")
    store.reset()
    assert listed(scan) == []
    assert scan.explain()["checkpoint"]["row_groups_read"] == 0


def test_min_max_statistics_prune_row_groups():
    def build(table):
        clustered(table, stats_parsed=True, row_group_rows=10)

    table, _ = metered(build)
    scan = table.scan("id > 57")
    assert len(listed(scan)) == 20 * 1
    explained = scan.explain()["checkpoint"]
    assert explained["row_groups_read"] < explained["row_groups"] / 2


def test_statistics_are_read_only_on_request():
    table, store = metered(clustered)
    listed(table.scan())
    lean = store.bytes_read
    store.reset()
    list(table.scan().files())
    assert lean < store.bytes_read


@pytest.mark.parametrize("local", [True, False])
def test_a_snapshot_takes_one_listing_and_no_heads(local):
    def build(table):
        clustered(table)
        for number in range(30):
            table.commit(f"+new{number}")
        table.hint(0)

    table, store = metered(build, local=local)
    assert table.snapshot().version == 30
    requests = store.requests_by_operation()
    assert requests["list"] == 1
    assert requests.get("head", 0) == 0


def test_the_hint_shortens_the_listing():
    def build(table):
        for number in range(1500):
            table.commit(f"+f{number}", info=False)
        table.checkpoint().hint()

    table, store = metered(build)
    assert table.snapshot().version == 1499
    assert store.requests_by_operation()["list"] == 1
    store.inner.delete(["_delta_log/_last_checkpoint"])
    store.reset()
    assert table.snapshot().version == 1499
    assert store.requests_by_operation()["list"] > 1


def test_a_commit_is_read_once():
    def build(table):
        clustered(table)
        for number in range(5):
            table.commit(f"+new{number}")

    table, store = metered(build)
    listed(table.scan())
    reads = [
        call.path
        for call in store.calls
        if call.operation == "read" and call.path.endswith(".json")
    ]
    assert sorted(reads) == sorted(set(reads))
    assert len(reads) == 5


def test_opening_a_table_and_describing_a_scan_read_no_file_actions():
    table, store = metered(clustered)
    assert store.requests == 0
    snapshot = table.snapshot()
    store.reset()
    snapshot.scan("day = '2026-01-07'", limit=3)
    assert store.requests == 0


def test_compacted_commits_are_read_instead_of_the_commits():
    def build(table):
        for number in range(10):
            table.commit(f"+f{number}")
        table.compact(1, 8)

    table, store = metered(build)
    assert len(listed(table.scan())) == 10
    commits = {path for path in paths_read(store) if path.endswith(".json")}
    assert sorted(path[-21:-5] for path in commits) == sorted(
        [f"{0:016d}", f"{9:016d}", f"{8:06d}.compacted"]
    )


def test_explain_counts_pruned_and_scanned_files():
    table, _ = metered(clustered)
    scan = table.scan("day < '2026-01-03'")
    assert "emitted" in str(scan.explain())
    assert len(listed(scan)) == 100
    files = scan.explain()["files"]
    assert files["scanned"] + files["pruned"] == 1000
    assert scan.metrics["delta.lazy.files_emitted"] == 100
    assert scan.metrics["files_pruned"] == 900
