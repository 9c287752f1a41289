"""Replace where with the change feed enabled: change data files have exactly the changes."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazydelta as ld
from benchmarks.rows import generate_rows
from benchmarks.spec import RowsSpec
from lazydelta._failpoints import arm
from lazydelta.errors import ConcurrentAppendError, SchemaError
from lazydelta.scan.verify import verify_checksum
from lazydelta.store import MemoryStore
from tests.unit.changes.support import FeedTable, changes

ON = {"delta.enableChangeDataFeed": "true"}
SCHEMA = pa.schema({"p": pa.string(), "x": pa.int64(), "t": pa.string()})
ALL = [("a", 1, "u"), ("a", 2, None), ("b", 3, "u"), (None, 4, "v"), ("a", 5, "w")]


def data(*rows: tuple) -> pa.Table:
    names = SCHEMA.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], SCHEMA)


def expected_changes(version, *, gone=(), new=()):
    """Return the changes of a version that deletes the rows `gone` and inserts the rows `new`."""
    rows = [(version, "delete", row) for row in gone] + [(version, "insert", row) for row in new]
    return sorted(rows, key=repr)


def theirs(url, version):
    table = deltalake.DeltaTable(url)
    rows = pa.table(table.load_cdf(starting_version=version, ending_version=version)).to_pylist()
    names = [field.name for field in table.schema().fields]
    found = (
        (r["_commit_version"], r["_change_type"], tuple(r[name] for name in names)) for r in rows
    )
    return sorted(found, key=repr)


def actions(url, version, kind):
    lines = (url / f"_delta_log/{version:020d}.json").read_text().splitlines()
    return [action[kind] for action in map(json.loads, lines) if kind in action]


def rows(url):
    return sorted(
        (tuple(row.values()) for row in ld.Table.open(url).to_arrow().to_pylist()), key=repr
    )


@pytest.mark.parametrize("partition_by", [None, "p"], ids=["plain", "partitioned"])
@pytest.mark.parametrize(
    ("where", "new", "gone"),
    [
        pytest.param("x in (1, 9)", [("a", 9, "n")], ALL[:1], id="one-row-for-another"),
        pytest.param("x >= 2 and x < 5", [], ALL[1:4], id="rows-of-many-files-and-nothing-new"),
        pytest.param("t = 'u'", [("z", 7, "u"), ("b", 8, "u")], [ALL[0], ALL[2]], id="null-stays"),
    ],
)
def test_the_feed_has_exactly_the_changed_rows(tmp_path, partition_by, where, new, gone):
    ld.write(tmp_path, data(*ALL), partition_by=partition_by, properties=ON)
    ld.write(tmp_path, data(*new), "overwrite", where=where)
    assert changes(tmp_path, 1) == expected_changes(1, gone=gone, new=new)
    assert changes(tmp_path, 1) == theirs(tmp_path, 1)
    assert rows(tmp_path) == sorted([row for row in ALL if row not in gone] + new, key=repr)


def test_the_feed_includes_rows_of_whole_removed_files(tmp_path):
    for part in (ALL[:2], ALL[2:3], ALL[3:]):
        ld.write(tmp_path, data(*part), "append", properties=ON)
    done = ld.write(tmp_path, data(("z", 3, "n")), "overwrite", where="x in (2, 3)")
    assert (done.files_removed, done.files_added) == (2, 2)
    assert changes(tmp_path, 3) == expected_changes(3, gone=ALL[1:3], new=[("z", 3, "n")])
    assert changes(tmp_path, 3) == theirs(tmp_path, 3)


def test_the_actions_are_those_of_the_protocol(tmp_path):
    ld.write(tmp_path, data(*ALL), partition_by="p", properties=ON)
    ld.write(tmp_path, data(("a", 1, "n"), ("b", 1, "n")), "overwrite", where="x = 1")
    found = actions(tmp_path, 1, "cdc")
    assert [(a["partitionValues"], a["dataChange"]) for a in found] == [
        ({"p": "a"}, False),
        ({"p": "a"}, False),
        ({"p": "b"}, False),
    ]
    for action in found:
        assert action.keys() == {"path", "partitionValues", "size", "dataChange"}
        folder = f"_change_data/p={action['partitionValues']['p']}/cdc-"
        assert action["path"].startswith(folder)
        file = tmp_path / action["path"]
        assert file.stat().st_size == action["size"]
        assert pq.read_schema(file).names == ["x", "t", "_change_type"]
    assert actions(tmp_path, 1, "commitInfo")[0]["operationMetrics"]["numAddedChangeFiles"] == "3"
    assert not any("_change_data" in a["path"] for a in actions(tmp_path, 1, "add"))


def test_whole_file_removals_need_no_change_files(tmp_path):
    ld.write(tmp_path, data(*ALL), partition_by="p", properties=ON)
    ld.write(tmp_path, data(("b", 9, "n")), "overwrite", where="p = 'b'")
    assert actions(tmp_path, 1, "cdc") == []
    assert not (tmp_path / "_change_data").exists()
    assert changes(tmp_path, 1) == expected_changes(1, gone=ALL[2:3], new=[("b", 9, "n")])


@pytest.mark.parametrize("mode", ["name", "id"])
def test_under_column_mapping_files_have_physical_names(tmp_path, mode):
    ld.write(
        tmp_path, data(*ALL), partition_by="p",
        properties={**ON, "delta.columnMapping.mode": mode},
    )  # fmt: skip
    ld.Table.open(tmp_path).alter.rename_column("t", "text")
    new = data(("a", 1, "n")).rename_columns(["p", "x", "text"])
    ld.write(tmp_path, new, "overwrite", where="x = 1")
    assert changes(tmp_path, 2) == expected_changes(2, gone=ALL[:1], new=[("a", 1, "n")])
    fields = json.loads(ld.Table.open(tmp_path).snapshot().metadata.schema_string)["fields"]
    physical = {f["name"]: f["metadata"]["delta.columnMapping.physicalName"] for f in fields}
    for action in actions(tmp_path, 2, "cdc"):
        assert action["partitionValues"].keys() == {physical["p"]}
        schema = pq.read_schema(tmp_path / action["path"])
        assert schema.names == [physical["x"], physical["text"], "_change_type"]
        assert b"PARQUET:field_id" not in (schema.field("_change_type").metadata or {})


def test_new_columns_may_come_with_it(tmp_path):
    ld.write(tmp_path, data(*ALL), properties=ON)
    new = pa.table({"p": ["a"], "x": [1], "t": ["n"], "extra": [1.5]})
    ld.write(tmp_path, new, "overwrite", where="x = 1", schema_mode="merge")
    assert changes(tmp_path, 1) == expected_changes(
        1, gone=[(*ALL[0], None)], new=[("a", 1, "n", 1.5)]
    )


def test_rows_deleted_before_are_not_in_the_feed(tmp_path):
    url = tmp_path / "t"
    generate_rows(RowsSpec(files=1, rows_per_file=100, deleted_percent=20), url)
    table = ld.Table.open(url)
    table.alter.set_properties(ON)
    before = table.to_arrow()
    ids = sorted(before["id"].to_pylist())
    middle = ids[len(ids) // 2]
    done = table.write(before.slice(0, 0), "overwrite", where=f"id >= {middle}")
    found = table.changes(starting_version=done.version).to_arrow()
    assert sorted(found["id"].to_pylist()) == [n for n in ids if n >= middle]
    assert set(found["_change_type"].to_pylist()) == {"delete"}


def test_checkpoints_and_checksums_omit_change_files(tmp_path):
    table = ld.Table.open(tmp_path)
    table.write(data(*ALL), properties={**ON, "delta.checkpointInterval": "1"})
    table.write(data(("a", 1, "n")), "overwrite", where="x = 1")
    parquet = pq.read_table(tmp_path / f"_delta_log/{1:020d}.checkpoint.parquet")
    assert "cdc" not in parquet.column_names
    paths = parquet["add"].combine_chunks().drop_null().field("path").to_pylist()
    assert len(paths) == 2
    assert not any("_change_data" in path for path in paths)
    assert verify_checksum(table.snapshot()).status == "matches"
    assert table.snapshot().checksum.num_files == 2


def test_a_rival_that_adds_matching_rows_is_a_conflict_still(tmp_path):
    ld.write(tmp_path, data(*ALL), properties=ON)

    def parts():
        yield data(("a", 9, "n"))
        ld.write(tmp_path, data(("a", 1, "rival")), "append")

    with pytest.raises(ConcurrentAppendError):
        ld.write(tmp_path, parts(), "overwrite", where="x in (1, 9)")
    assert changes(tmp_path, 1) == expected_changes(1, new=[("a", 1, "rival")])


def test_a_failure_changes_nothing_and_deletes_change_files(tmp_path):
    ld.write(tmp_path, data(*ALL), partition_by="p", properties=ON)
    options = ld.WriteOptions(files_at_once=1)
    with (
        arm("data-file-started", "raise", hit=4),  # the third of the change files
        pytest.raises(Exception, match="data-file-started"),
    ):
        ld.write(tmp_path, data(), "overwrite", where="x in (1, 3, 4)", options=options)
    assert rows(tmp_path) == sorted(ALL, key=repr)
    assert ld.Table.open(tmp_path).version == 0
    assert not list(tmp_path.glob("_change_data/**/*.parquet"))


def test_a_column_with_a_name_of_the_feed_is_refused_before_anything_is_written(tmp_path):
    table = FeedTable(tmp_path, schema={"id": "long", "_change_type": "string"})
    columns = {"id": [1, 2], "_change_type": ["x", "y"]}
    table.commit(table.add("f.parquet", columns))
    with pytest.raises(SchemaError, match="_change_type"):
        ld.write(tmp_path, pa.table(columns).slice(0, 1), "overwrite", where="id = 1")
    assert {path.name for path in tmp_path.glob("*.parquet")} == {"f.parquet"}


VALUES = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.integers(0, 5) | st.none(),
    st.sampled_from(["u", "v", None]),
)
CONDITIONS = {
    "p = 'a'": lambda p, x, t: p == "a",
    "x > 2": lambda p, x, t: x is not None and x > 2,
    "x is null": lambda p, x, t: x is None,
    "t = 'u'": lambda p, x, t: t == "u",
    "p = 'a' or x = 1": lambda p, x, t: p == "a" or x == 1,
    "x in (1, 2)": lambda p, x, t: x in (1, 2),
}


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.lists(VALUES, min_size=1, max_size=6), min_size=1, max_size=3),
    st.lists(VALUES, max_size=3),
    st.sampled_from(sorted(CONDITIONS)),
    st.sampled_from([None, "p"]),
)
def test_the_feed_is_the_difference_of_the_versions(files, new, condition, partition_by):
    store, matches = MemoryStore(), CONDITIONS[condition]
    table = ld.Table(store, ld.Config(write_checksums=False, write_checkpoints=False))
    for part in files:
        table.write(data(*part), partition_by=partition_by, properties=ON)
    new = [row for row in new if matches(*row)]
    done = table.write(data(*new), "overwrite", where=condition)
    found = table.changes(starting_version=done.version).to_arrow().to_pylist()
    changed = [
        (done.version, row["_change_type"], tuple(row[name] for name in SCHEMA.names))
        for row in found
    ]
    gone = [row for part in files for row in part if matches(*row)]
    assert sorted(changed, key=repr) == expected_changes(done.version, gone=gone, new=new)
