"""What each version changed: inserts, deletes, updates, vectors, rewrites, schemas, times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tests.unit.changes.support import FeedTable, changes, feed, find_feed, ids


@pytest.fixture
def table(tmp_path):
    return FeedTable(tmp_path)


def test_files_added_are_inserts_and_files_removed_deletes(table):
    table.commit(table.add("a", {"id": [1, 2]}))
    table.commit(table.remove("a"), table.add("b", {"id": [3]}))
    assert changes(table) == sorted(
        [*ids(0, "insert", 1, 2), *ids(1, "delete", 1, 2), *ids(1, "insert", 3)], key=repr
    )


def test_both_ends_are_inclusive(table):
    for version in range(5):
        table.commit(table.add(f"f{version}", {"id": [version]}))
    assert changes(table, 1, 3) == [c for v in (1, 2, 3) for c in ids(v, "insert", v)]
    assert changes(table, 4, 4) == ids(4, "insert", 4)


def test_changes_are_in_version_order(table):
    for version in range(30):
        table.commit(table.add(f"f{version}", {"id": [version] * (1 + version % 3)}))
    versions = feed(table).column("_commit_version").to_pylist()
    assert versions == sorted(versions)
    assert set(versions) == set(range(30))


def test_deletes_of_a_version_precede_its_inserts(table):
    table.commit(table.add("a", {"id": [1]}), table.add("v", {"id": [7, 8]}))
    table.commit(
        table.add("b", {"id": [2]}),
        table.add("v", deleted=[1]),
        table.remove("v"),
        table.remove("a"),
    )
    kinds = feed(table, 1, 1).column("_change_type").to_pylist()
    assert kinds == ["delete", "delete", "insert"]


def test_change_files_replace_adds_and_removes(table):
    table.commit(table.add("a", {"id": [1, 2, 3]}))
    cdc_columns = {"id": [2, 9], "_change_type": ["update_preimage", "update_postimage"]}
    table.commit(table.remove("a"), table.add("b", {"id": [1, 9, 3]}), table.cdc("c", cdc_columns))
    assert changes(table, 1) == [
        (1, "update_postimage", (9,)),
        (1, "update_preimage", (2,)),
    ]


def test_unknown_change_types_are_returned_as_written(table):
    stated = pa.array(["upsert", None, "insert"])
    table.commit(table.cdc("c", {"id": [1, 2, 3], "_change_type": stated}))
    assert feed(table, columns=["_change_type", "id"]).to_pylist() == [
        {"_change_type": "upsert", "id": 1},
        {"_change_type": None, "id": 2},
        {"_change_type": "insert", "id": 3},
    ]
    assert changes(table, where="_change_type = 'upsert'") == ids(0, "upsert", 1)


def test_a_rewrite_without_data_change_has_no_changes(table):
    table.commit(table.add("a", {"id": [1]}), table.add("b", {"id": [2]}))
    table.commit(
        table.remove("a", dataChange=False),
        table.remove("b", dataChange=False),
        table.add("c", {"id": [1, 2]}, dataChange=False),
    )
    assert changes(table, 1) == []


@pytest.mark.parametrize(
    ("before", "after", "deleted", "restored"),
    [
        pytest.param([], [1, 3], [1, 3], [], id="first-vector"),
        pytest.param([1], [1, 2], [2], [], id="more-rows"),
        pytest.param([1, 2], [], [], [1, 2], id="restored"),
        pytest.param([0, 1], [1, 4], [4], [0], id="some-of-each"),
        pytest.param([2], [2], [], [], id="the-same-vector"),
    ],
)
def test_a_new_vector_yields_the_rows_that_differ(table, before, after, deleted, restored):
    table.commit(table.add("a", {"id": list(range(5))}, deleted=before))
    table.commit(table.remove("a", deleted=before), table.add("a", deleted=after))
    expected = [*ids(1, "delete", *deleted), *ids(1, "insert", *restored)]
    assert changes(table, 1) == sorted(expected, key=repr)


def test_row_groups_without_vector_differences_are_not_read(table, monkeypatch):
    table.file("a", {"id": list(range(40))}, row_group_size=10)
    table.commit(table.add("a", deleted=[5, 35]))
    table.commit(table.remove("a", deleted=[5, 35]), table.add("a", deleted=[5, 25, 35]))
    read = []

    from lazydelta.parquet import DataFile

    rows = DataFile.read
    monkeypatch.setattr(
        DataFile,
        "read",
        lambda self, c, groups, **h: (read.append(groups), rows(self, c, groups, **h))[1],
    )
    assert changes(table, 1) == ids(1, "delete", 25)
    assert [group for groups in read for group in groups] == [2]


def test_a_removed_file_yields_only_its_live_rows(table):
    table.commit(table.add("a", {"id": [0, 1, 2, 3]}, deleted=[1]))
    table.commit(table.remove("a", deleted=[1]))
    assert changes(table, 1) == ids(1, "delete", 0, 2, 3)


def test_equivalent_paths_are_one_file(table):
    table.commit(table.add("a b", {"id": [0, 1]}))
    whole = (table.directory / "a b").as_uri()
    table.commit(
        table.remove("a%20b"), {"add": table.add("a b", deleted=[0])["add"] | {"path": whole}}
    )
    assert changes(table, 1) == ids(1, "delete", 0)


def test_partition_values_are_those_of_the_log(tmp_path):
    table = FeedTable(tmp_path, {"id": "long", "day": "date"}, partition_by=["day"])
    day = {"day": "2026-01-31"}
    table.commit(table.add("x", {"id": [1]}, values=day))
    cdc_columns = {"id": [1], "_change_type": ["delete"]}
    table.commit(table.remove("x", values=day), table.cdc("c", cdc_columns, values={"day": None}))
    date = datetime(2026, 1, 31, tzinfo=UTC).date()
    assert changes(table) == [(0, "insert", (1, date)), (1, "delete", (1, None))]


def test_a_remove_takes_partition_values_from_its_add(tmp_path):
    table = FeedTable(tmp_path, {"id": "long", "p": "string"}, partition_by=["p"])
    table.commit(
        table.add("x", {"id": [1]}, values={"p": "one"}),
        table.add("y", {"id": [2]}, values={"p": "two"}),
    )
    table.log.checkpoint()
    table.commit(table.remove("y"), table.remove("x"))
    assert changes(table, 1) == [(1, "delete", (1, "one")), (1, "delete", (2, "two"))]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_and_partitions(tmp_path, mode):
    table = FeedTable(
        tmp_path, {"id": "long", "p": "integer"}, partition_by=["p"], column_mapping=mode
    )
    field = pa.field("col-id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    rows = pa.table([[1, 2]], schema=pa.schema([field]))
    cdc_columns = rows.append_column("_change_type", pa.array(["insert", "update_postimage"]))
    table.commit(table.add("a", rows, values={"col-p": "7"}))
    table.commit(table.cdc("c", cdc_columns, values={"col-p": "8"}))
    assert changes(table) == [
        (0, "insert", (1, 7)),
        (0, "insert", (2, 7)),
        (1, "insert", (1, 8)),
        (1, "update_postimage", (2, 8)),
    ]


def test_rows_have_the_last_schema_of_the_range(tmp_path):
    table = FeedTable(tmp_path, {"id": "integer"})
    table.commit(table.add("a", {"id": pa.array([1], pa.int32())}))
    wider = table.metadata(schema={"id": "long", "note": "string"})
    table.commit(wider, table.add("b", {"id": [2**40], "note": ["x"]}))
    shown = feed(table)
    assert shown.schema.field("id").type == pa.int64()
    assert changes(table) == [(0, "insert", (1, None)), (1, "insert", (2**40, "x"))]
    assert feed(table, 0, 0).column_names[0:2] == ["id", "_change_type"]


def test_a_data_file_with_a_change_type_column_is_read_without_it(table):
    mixed = {"id": [1, 2], "_change_type": pa.array([None, None], pa.string())}
    table.commit(table.add("a", mixed))
    assert changes(table) == ids(0, "insert", 1, 2)


def test_file_times_are_made_monotonic(table):
    for at in (1_700_000_005_000, 1_700_000_002_000, 1_700_000_005_001):
        table.commit(table.add(f"f{at}", {"id": [1]}), at_ms=at)
    found = feed(table).column("_commit_timestamp")
    assert found.type == pa.timestamp("us", "UTC")
    base = datetime(2023, 11, 14, 22, 13, 25, tzinfo=UTC)
    steps = [base + timedelta(milliseconds=n) for n in (0, 1, 2)]
    assert found.to_pylist() == steps


def test_in_commit_timestamps_override_file_times(tmp_path):
    table = FeedTable(tmp_path, in_commit_timestamps=True)
    table.commit(table.add("a", {"id": [1]}), at_ms=1_700_000_000_123)
    table.log.set_time("00000000000000000000.json", 1_000)
    table.commit(table.add("b", {"id": [2]}), at_ms=1_700_000_001_456)
    table.log.set_time("00000000000000000001.json", 2_000)
    moments = feed(table).column("_commit_timestamp").cast(pa.int64()).to_pylist()
    assert moments == [1_700_000_000_123_000, 1_700_000_001_456_000]


def test_requested_columns_in_their_order(tmp_path):
    table = FeedTable(tmp_path, {"id": "long", "x": "string"})
    table.commit(table.add("a", {"id": [1], "x": ["y"]}))
    found = feed(table, columns=["_commit_version", "x"])
    assert found.column_names == ["_commit_version", "x"]
    assert found.to_pylist() == [{"_commit_version": 0, "x": "y"}]
    assert feed(table, columns=["_change_type"]).to_pylist() == [{"_change_type": "insert"}]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        pytest.param(
            "id > 1", {(0, "insert", 2), (1, "delete", 2), (2, "update_postimage", 5)}, id="row"
        ),
        pytest.param("_change_type = 'delete'", {(1, "delete", 1), (1, "delete", 2)}, id="type"),
        pytest.param(
            "_change_type like 'update%'",
            {(2, "update_preimage", 1), (2, "update_postimage", 5)},
            id="types",
        ),
        pytest.param(
            "_commit_version >= 1 and id = 1",
            {(1, "delete", 1), (2, "update_preimage", 1)},
            id="version",
        ),
        pytest.param(
            "_change_type = 'insert' or id = 5",
            {(0, "insert", 1), (0, "insert", 2), (2, "update_postimage", 5)},
            id="either",
        ),
        pytest.param(
            "_commit_timestamp < '2023-11-14T22:13:21Z'",
            {(0, "insert", 1), (0, "insert", 2)},
            id="time",
        ),
        pytest.param("p = 'b'", set(), id="partition"),
    ],
)
@pytest.mark.parametrize("columns", [None, ["_commit_version", "_change_type", "id"]])
def test_where_may_name_any_column(tmp_path, where, expected, columns):
    table = FeedTable(tmp_path, {"id": "long", "p": "string"}, partition_by=["p"])
    p = {"p": "a"}
    table.commit(table.add("a", {"id": [1, 2]}, values=p), at_ms=1_700_000_000_000)
    table.commit(table.remove("a", values=p), at_ms=1_700_000_001_000)
    cdc_columns = {"id": [1, 5], "_change_type": ["update_preimage", "update_postimage"]}
    table.commit(table.cdc("c", cdc_columns, values=p), at_ms=1_700_000_002_000)
    rows = feed(table, where=where, columns=columns).to_pylist()
    assert {(r["_commit_version"], r["_change_type"], r["id"]) for r in rows} == expected
    assert len(rows) == len(expected)


def test_files_that_cannot_match_are_not_opened(table):
    table.commit(table.add("a", {"id": [1]}))
    table.commit(table.add("b", {"id": [2]}))
    (table.directory / "a").unlink()
    assert changes(table, where="_commit_version = 1") == ids(1, "insert", 2)
    assert changes(table, where="_change_type = 'delete'") == []


def test_nested_values(tmp_path):
    table = FeedTable(tmp_path)
    fields = [
        {
            "name": "s",
            "type": {
                "type": "struct",
                "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}],
            },
            "nullable": True,
            "metadata": {},
        },
    ]
    table.log.metadata = table.metadata(fields=fields)["metaData"]
    table.commit(table.add("a", {"s": [{"x": 1}, {"x": 2}, None]}))
    assert changes(table, where="s.x = 2") == [(0, "insert", ({"x": 2},))]


def test_an_empty_version_and_an_empty_file(table):
    table.commit()
    table.commit(table.add("a", {"id": pa.array([], pa.int64())}))
    found = feed(table)
    assert found.num_rows == 0
    assert found.column_names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]


def test_log_compactions_are_ignored(table):
    for version in range(4):
        table.commit(table.add(f"f{version}", {"id": [version]}))
    table.log.compact(0, 3)
    assert changes(table, 0, 2) == [c for v in (0, 1, 2) for c in ids(v, "insert", v)]


def test_read_ahead_is_bounded(table):
    from lazydelta import ReadOptions
    from lazydelta.store import open_store

    for version in range(100):
        table.commit(table.add(f"f{version}", {"id": [version] * 1000}))
    (table.directory / "f99").unlink()
    options = ReadOptions(files_at_once=2, memory_limit=20_000)
    reader = find_feed(open_store(str(table.directory)), options=options).to_reader()
    first = reader.read_next_batch()
    assert first.column("_commit_version")[0].as_py() == 0
    reader.close()
    del reader


@pytest.mark.parametrize("ahead", [1 << 20, 0], ids=["fetched-ahead", "streamed"])
def test_a_remote_table_reads_the_same(table, monkeypatch, ahead):
    from lazydelta.changes import tuning
    from tests.support import memory_store

    monkeypatch.setattr(tuning, "MAX_PREFETCH_BYTES", ahead)
    table.commit(table.add("v", {"id": list(range(10))}))
    for version in range(20):
        before, after = range(version % 5), range((version + 1) % 5)
        table.commit(
            table.remove("v", deleted=before),
            table.add("v", deleted=after),
            table.add(f"f{version}", {"id": [100 + version]}),
        )
    store = memory_store(local=False)
    for path in table.directory.rglob("*"):
        if path.is_file():
            name = path.relative_to(table.directory).as_posix()
            store.write(name, path.read_bytes(), overwrite=True)
    columns = ["_commit_version", "_change_type", "id"]
    found = find_feed(store, columns=columns).to_arrow()
    assert found.equals(feed(table, columns=columns))
