"""Clustering and Z-order: rows stay, files get narrow bounds, later runs cost little."""

from __future__ import annotations

import math
import shutil

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import AlterationError, ColumnNotFoundError, ConfigError
from lazydelta.operations.optimize import Clustering
from lazydelta.operations.optimize.overlap import FileBounds
from lazydelta.operations.optimize.rewriting import Rewriter
from tests.unit.operations.optimize.support import VECTORS, actions, make, numbered, rows_of, theirs

COLUMNS = "x bigint, s string, v double"


def points(count, seed):
    rng = np.random.default_rng(seed)
    strings = [f"user-{n:06d}" for n in rng.integers(0, 10**6, count)]
    return pa.table({"x": rng.integers(0, 10**6, count), "s": strings, "v": rng.random(count)})


def clustered(directory, writes=4, count=3000, **options):
    table = ld.Table.create(directory, COLUMNS, cluster_by=["x", "s"], **options)
    for seed in range(writes):
        table.write(points(count, seed))
    return table


def domain(table):
    (found,) = actions(table, table.version, "domainMetadata")
    return orjson.loads(found["configuration"])


# --- declaring columns -------------------------------------------------------------------------


def test_created_tables_declare_their_columns_as_delta_spark_does(tmp_path):
    table = ld.Table.create(
        tmp_path, "a bigint, s struct<b: string>", cluster_by=["A", "s.b"],
        properties={"delta.columnMapping.mode": "name"},
    )  # fmt: skip
    physical = table.snapshot().clustering_columns()
    assert [len(path) for path in physical] == [1, 2]
    assert domain(table) == {
        "clusteringColumns": [list(path) for path in physical], "domainName": "delta.clustering",
    }  # fmt: skip
    assert {"clustering", "domainMetadata"} <= set(table.snapshot().protocol.writer_features)
    table.write(pa.table({"a": [1, 2], "s": [{"b": "x"}, None]}))
    assert table.optimize().quality["after"] == {"a": 1.0, "s.b": 1.0}
    table.alter.rename_column("a", "c")
    assert table.optimize(full=True).quality["after"].keys() == {"c", "s.b"}


def test_columns_are_changed_and_removed(tmp_path):
    table = make(tmp_path, numbered(4))
    assert table.alter.cluster_by(["id"]).changed
    (info,) = actions(table, table.version, "commitInfo")
    assert info["operation"] == "CLUSTER BY"
    expected = {"oldClusteringColumns": "", "newClusteringColumns": "id"}
    assert info["operationParameters"] == expected
    assert not table.alter.cluster_by(["id"]).changed
    assert table.alter.cluster_by(["v", "id"]).changed
    assert table.snapshot().clustering_columns() == [("v",), ("id",)]
    assert table.alter.cluster_by([]).changed
    assert table.snapshot().clustering_columns() == []
    assert table.optimize().quality == {}
    assert rows_of(table) == theirs(table)


def test_impossible_columns_are_refused(tmp_path):
    schema = "a bigint, b bigint, c bigint, d bigint, e bigint, l array<int>, s struct<f: int>"
    table = ld.Table.create(tmp_path / "t", schema)
    cases = {("l",): "order", ("s",): "order", ("a", "A"): "twice", tuple("abcde"): "4 are allowed"}
    for columns, message in cases.items():
        with pytest.raises(ConfigError, match=message):
            table.alter.cluster_by(columns)
        with pytest.raises(ConfigError, match=message):
            table.optimize(z_order=columns)
    with pytest.raises(ColumnNotFoundError):
        table.alter.cluster_by(["nope"])
    assert table.version == 0
    with pytest.raises(ConfigError, match="not both"):
        ld.Table.create(tmp_path / "u", schema, cluster_by=["a"], partition_by=["b"])
    partitioned = make(tmp_path / "p", numbered(4), partition_by=("p",))
    with pytest.raises(AlterationError, match="partitioned"):
        partitioned.alter.cluster_by(["id"])
    with pytest.raises(ConfigError, match="partition column"):
        partitioned.optimize(z_order=["p"])
    with pytest.raises(ConfigError, match="no clustering columns"):
        partitioned.optimize(cluster=True)


def test_contradicting_options_are_refused(tmp_path):
    table = clustered(tmp_path, writes=1, count=10)
    with pytest.raises(ConfigError, match="clustered by x, s"):
        table.optimize(z_order=["x"])
    with pytest.raises(ConfigError, match="not both"):
        table.optimize(z_order=["x"], cluster=True)
    with pytest.raises(ConfigError, match="cluster=False"):
        table.optimize(cluster=False, full=True)


# --- clustering --------------------------------------------------------------------------------


def test_clustered_files_have_narrow_bounds_and_tags(tmp_path):
    table = clustered(tmp_path, count=12_000)
    before = rows_of(table)
    result = table.optimize(target_size=20_000)
    assert rows_of(table) == before == theirs(table)
    assert result.quality["before"] == {"x": 4.0, "s": 4.0}
    files = result.metrics["numAddedFiles"]
    assert files > 8
    assert all(depth < files * 0.7 for depth in result.quality["after"].values())
    adds = actions(table, result.version, "add")
    assert {add["clusteringProvider"] for add in adds} == {"liquid"}
    assert {add["tags"]["ZCUBE_ZORDER_BY"] for add in adds} == {'["x","s"]'}
    assert len({add["tags"]["ZCUBE_ID"] for add in adds}) == 1
    (info,) = actions(table, result.version, "commitInfo")
    assert info["operationParameters"]["clusterBy"] == '["x","s"]'
    assert info["operationParameters"]["zOrderBy"] == "[]"
    assert table.optimize(target_size=20_000).versions == ()


def test_new_rows_cost_about_their_own_size(tmp_path):
    table = clustered(tmp_path, count=25_000)
    table.optimize(target_size=20_000)
    table.write(points(2500, 99))
    (new,) = actions(table, table.version, "add")
    result = table.optimize(target_size=20_000)
    assert result.metrics["numRemovedBytes"] <= 3 * new["size"]
    full = table.optimize(target_size=20_000, full=True)
    for column, depth in result.quality["after"].items():
        assert depth <= full.quality["after"][column] + 2  # a reader opens two files more
    assert full.metrics["numRemovedFiles"] > result.metrics["numRemovedFiles"]
    assert table.count() == 102_500


def test_clustered_files_join_where_new_rows_overlap_with_them(tmp_path):
    table = ld.Table.create(tmp_path, "x bigint", cluster_by=["x"])
    table.write({"x": np.arange(40_000)})
    table.optimize(target_size=20_000)
    files = {file.path: file for file in table.scan().files()}
    assert len(files) > 4
    table.write({"x": np.random.default_rng(1).integers(6000, 9000, 40_000)})
    result = table.optimize(target_size=20_000)
    removed = {action["path"] for action in actions(table, result.version, "remove")}
    joined = removed & files.keys()
    assert joined
    overlapping = {
        path for path, file in files.items()
        if file.stats["minValues"]["x"] < 9000 and file.stats["maxValues"]["x"] >= 6000
    }  # fmt: skip
    assert joined == overlapping
    assert table.count() == 80_000


def test_runs_of_similar_size_are_merged(tmp_path):
    table = clustered(tmp_path, writes=0)
    for seed in range(6):
        table.write(points(300, seed))
        table.optimize()
    cubes = {file.tags["ZCUBE_ID"] for file in table.scan().files()}
    assert len(cubes) <= 3
    assert table.count() == 1800


def test_files_clustered_by_other_columns_are_left_unless_all_are_clustered(tmp_path):
    table = clustered(tmp_path, writes=2, count=100)
    table.optimize()
    table.alter.cluster_by(["v"])
    assert table.optimize().versions == ()
    table.write(points(50, 7))
    assert table.optimize().metrics["numRemovedFiles"] == 1
    result = table.optimize(full=True)
    assert result.metrics["numRemovedFiles"] == 2
    assert {file.tags["ZCUBE_ZORDER_BY"] for file in table.scan().files()} == {'["v"]'}


def test_a_compaction_of_a_clustered_table_can_be_requested(tmp_path):
    table = clustered(tmp_path, writes=3, count=100)
    result = table.optimize(cluster=False)
    assert result.quality == {}
    assert [file.clustering_provider for file in table.scan().files()] == [None]


def test_files_with_many_deleted_rows_are_clustered_again(tmp_path):
    table = clustered(tmp_path, writes=2, count=300, properties=VECTORS)
    table.optimize()
    table.delete("x < 300000")
    result = table.optimize()
    assert result.metrics["numDeletionVectorsRemoved"] == 1
    assert rows_of(table) == theirs(table)


def test_row_ids_survive(tmp_path):
    table = clustered(tmp_path, writes=3, count=200, properties={"delta.enableRowTracking": "true"})
    options = ld.ReadOptions(row_id_column="rid", row_commit_version_column="rcv")
    before = table.to_arrow(options).sort_by("rid")
    assert table.optimize().versions
    assert table.to_arrow(options).sort_by("rid") == before


def test_a_run_is_bounded_by_its_bytes(tmp_path):
    table = clustered(tmp_path, writes=4, count=300)
    size = max(file.size for file in table.scan().files())
    result = table.optimize(max_bytes=2 * size)
    assert result.metrics["numRemovedFiles"] == 2


def test_a_concurrent_delete_is_kept(tmp_path, monkeypatch):
    table = clustered(tmp_path, writes=3, count=300, properties=VECTORS)
    rewrite, calls = Rewriter.rewrite, []

    def race(self, *arguments):
        done = rewrite(self, *arguments)
        if not calls:
            ld.Table.open(tmp_path).delete("x < 100000")
        calls.append(done)
        return done

    monkeypatch.setattr(Rewriter, "rewrite", race)
    assert table.optimize().versions
    assert len(calls) == 2
    assert table.count("x < 100000") == 0
    assert rows_of(table) == theirs(table)


# --- Z-order -----------------------------------------------------------------------------------


def test_z_order_sorts_the_files_of_each_partition(tmp_path):
    rows = points(60_000, 1).append_column("p", pa.array(["a", "b"] * 30_000))
    for start in range(0, 60_000, 15_000):
        ld.write(tmp_path, rows.slice(start, 15_000), partition_by="p")
    table = ld.Table.open(tmp_path)
    before = rows_of(table)
    result = table.optimize(z_order=["x", "s"], target_size=10_000)
    assert rows_of(table) == before == theirs(table)
    assert result.quality["before"] == {"x": 4.0, "s": 4.0}
    assert max(result.quality["after"].values()) < result.metrics["numAddedFiles"] / 2 * 0.8
    (info,) = actions(table, result.version, "commitInfo")
    assert info["operationParameters"]["zOrderBy"] == '["x","s"]'
    assert not any("tags" in add for add in actions(table, result.version, "add"))
    assert table.optimize("p = 'a'", z_order="x").metrics["numRemovedFiles"] > 0


def test_an_empty_table_has_nothing_to_cluster(tmp_path):
    table = clustered(tmp_path, writes=0)
    assert table.optimize().versions == ()
    assert table.optimize(full=True).versions == ()


values = st.fixed_dictionaries({
    "i": st.one_of(st.none(), st.integers(-5, 5)),
    "f": st.one_of(st.none(), st.floats(width=32), st.just(math.nan)),
    "s": st.one_of(st.none(), st.text(max_size=3)),
    "d": st.one_of(st.none(), st.dates()),
})  # fmt: skip
SCHEMA = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("d", pa.date32())])


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(values, min_size=1, max_size=30),
    columns=st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=4, unique=True),
    z_order=st.booleans(),
)
def test_any_rows_can_be_clustered_by_any_columns(tmp_path, rows, columns, z_order):
    directory = tmp_path / "table"
    shutil.rmtree(directory, ignore_errors=True)
    config = ld.Config(operation_memory=1 << 20)
    for start in range(0, len(rows), 7):
        ld.write(directory, pa.Table.from_pylist(rows[start : start + 7], SCHEMA), config=config)
    table = ld.Table.open(directory, config=config)
    before = rows_of(table)
    if z_order:
        table.optimize(z_order=columns)
    else:
        table.alter.cluster_by(columns)
        table.optimize()
    assert rows_of(table) == before


def test_rows_stay_although_the_sampled_files_have_none(tmp_path, monkeypatch):
    table = ld.Table.create(tmp_path, COLUMNS, cluster_by=["x"])
    for seed in range(3):
        table.write(points(50, seed))
    monkeypatch.setattr(Clustering, "sample", lambda *_: [])
    before = rows_of(table)
    assert len(before) == 150
    table.optimize(full=True)
    assert rows_of(table) == before


@pytest.mark.parametrize("prefix", ["", "a common start of all values "])
def test_bounds_that_differ_in_late_bytes_do_not_overlap(prefix):
    names = [f"{prefix}{group}/same-eight-bytes/{n:03d}" for group in "ab" for n in range(50)]
    bounds = pa.array(names, pa.string())
    files = FileBounds.joined([[(bounds, bounds)]])
    assert files.depths(np.zeros(100)) == [1.0]
    unknown = pa.array([None] * 100, pa.string())
    assert FileBounds.joined([[(unknown, unknown)]]).depths(np.zeros(100)) == [100.0]
