"""OPTIMIZE: the rows of every version stay, in fewer files."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import (
    ColumnNotFoundError,
    ConfigError,
    InternalError,
    MetadataChangedError,
    PredicateError,
    TableNotFoundError,
)
from lazydelta.operations.optimize import rewriting
from lazydelta.operations.optimize.rewriting import Rewriter
from tests.unit.operations.optimize.support import (
    VECTORS,
    actions,
    make,
    numbered,
    rows_of,
    theirs,
)


def paths(table):
    return {file.path for file in table.scan().files()}


def before_commit(monkeypatch, interfere):
    """Run a function after the first bin is rewritten, and before it is committed."""
    rewrite, calls = Rewriter.rewrite, []

    def race(self, *arguments):
        done = rewrite(self, *arguments)
        calls.append(done)
        if len(calls) == 1:
            interfere()
        return done

    monkeypatch.setattr(Rewriter, "rewrite", race)
    return calls


# --- rows and files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "partition_by"),
    [
        pytest.param({}, (), id="plain"),
        pytest.param({}, ("p",), id="partitioned"),
        pytest.param(VECTORS, ("p",), id="vectors"),
        pytest.param({**VECTORS, "delta.columnMapping.mode": "name"}, ("p",), id="mapped"),
        pytest.param({"delta.appendOnly": "true"}, (), id="append-only"),
        pytest.param({"delta.enableChangeDataFeed": "true"}, (), id="change-feed"),
    ],
)
def test_small_files_become_one_of_each_partition_and_rows_stay(tmp_path, properties, partition_by):
    table = make(tmp_path, numbered(40), properties, partition_by)
    if properties.get("delta.enableDeletionVectors"):
        table.delete("id = 3 OR id = 8")
    versions = {v: rows_of(table, v) for v in range(table.version + 1)}
    result = table.optimize()
    assert len(result.versions) == 1
    assert len(paths(table)) == (2 if partition_by else 1)
    assert {v: rows_of(table, v) for v in versions} == versions
    assert rows_of(table) == versions[result.version - 1] == theirs(table)
    assert table.optimize().versions == ()


def test_the_commit_is_as_delta_spark_writes_it(tmp_path):
    table = make(tmp_path, numbered(8), VECTORS)
    table.delete("id = 1")
    files = {file.path: file for file in table.scan().files()}
    result = table.optimize(commit_metadata={"note": "nightly"})
    (info,) = actions(table, result.version, "commitInfo")
    assert info["operation"] == "OPTIMIZE"
    assert info["operationParameters"] == {
        "predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false",
    }  # fmt: skip
    assert info["note"] == "nightly"
    metrics = {name: int(value) for name, value in info["operationMetrics"].items()}
    assert metrics == dict(result.metrics)
    assert metrics["numRemovedFiles"] == 4
    assert metrics["numAddedFiles"] == metrics["numDeletionVectorsRemoved"] == 1
    assert metrics["numRemovedBytes"] == sum(file.size for file in files.values())
    assert metrics["minFileSize"] == metrics["maxFileSize"] == metrics["numAddedBytes"]
    removes, adds = actions(table, result.version, "remove"), actions(table, result.version, "add")
    assert {remove["path"] for remove in removes} == files.keys()
    assert not any(action["dataChange"] for action in [*removes, *adds])
    vectors = {r["path"]: r.get("deletionVector", {}).get("pathOrInlineDv") for r in removes}
    expected = {
        path: file.deletion_vector and file.deletion_vector.path_or_inline_dv
        for path, file in files.items()
    }
    assert vectors == expected
    assert any(vectors.values())


def test_no_changes_appear_in_the_change_feed(tmp_path):
    table = make(tmp_path, numbered(8), {"delta.enableChangeDataFeed": "true"})
    result = table.optimize()
    feed = table.changes(starting_version=result.version, ending_version=result.version)
    assert feed.to_arrow().num_rows == 0


def test_files_near_the_target_size_are_left_alone(tmp_path):
    table = make(tmp_path, numbered(8), files=2)
    size = max(file.size for file in table.scan().files())
    before = paths(table)
    assert table.optimize(target_size=size).versions == ()
    assert table.optimize(target_size=size * 4, min_file_size=1).versions == ()
    assert paths(table) == before


def test_a_large_file_with_many_deleted_rows_is_rewritten(tmp_path):
    table = make(tmp_path, numbered(8), VECTORS, files=1)
    table.delete("id = 1")
    size = max(file.size for file in table.scan().files())
    assert table.optimize(target_size=size).metrics["numDeletionVectorsRemoved"] == 1
    assert [file.deletion_vector for file in table.scan().files()] == [None]
    assert rows_of(table) == theirs(table)


def test_a_large_file_with_few_deleted_rows_keeps_its_vector(tmp_path):
    table = make(tmp_path, numbered(100), VECTORS, files=1)
    table.delete("id = 1")
    size = max(file.size for file in table.scan().files())
    assert table.optimize(target_size=size).versions == ()


def test_bins_stay_below_the_target_size(tmp_path):
    table = make(tmp_path, numbered(40), files=8)
    size = max(file.size for file in table.scan().files())
    result = table.optimize(target_size=3 * size)
    assert result.metrics["numAddedFiles"] == 3
    assert rows_of(table) == theirs(table)


def test_each_batch_is_a_commit(tmp_path):
    table = make(tmp_path, numbered(40), partition_by=("p",))
    result = table.optimize(batch_bytes=1)
    assert result.versions == (4, 5)
    assert result.version == 5
    assert result.metrics["numRemovedFiles"] == 8
    assert len(paths(table)) == 2


def test_a_run_stops_at_its_bytes(tmp_path):
    table = make(tmp_path, numbered(40), partition_by=("p",))
    sizes = [file.size for file in table.scan(where="p = 'a'").files()]
    result = table.optimize(max_bytes=sum(sizes) + 1)
    assert result.metrics["numRemovedFiles"] == 4
    assert table.optimize(max_bytes=1).versions == ()


def test_where_selects_partitions(tmp_path):
    table = make(tmp_path, numbered(40), partition_by=("p",))
    result = table.optimize("p = 'a'")
    assert result.metrics["numRemovedFiles"] == 4
    (info,) = actions(table, result.version, "commitInfo")
    assert info["operationParameters"]["predicate"] == "[\"p = 'a'\"]"
    assert len(list(table.scan(where="p = 'b'").files())) == 4


def test_a_dry_run_writes_nothing(tmp_path):
    table = make(tmp_path, numbered(40))
    files = sorted(tmp_path.rglob("*"))
    result = table.optimize(dry_run=True)
    assert result.dry_run
    assert result.metrics["numRemovedFiles"] == 4
    assert sorted(tmp_path.rglob("*")) == files


# --- refusals ----------------------------------------------------------------------------------


def test_where_over_other_columns_is_refused_by_name(tmp_path):
    table = make(tmp_path, numbered(4), partition_by=("p",))
    with pytest.raises(PredicateError, match=r"non-partition column 'id'.*: \[p\]"):
        table.optimize("p = 'a' AND id = 1")
    with pytest.raises(ColumnNotFoundError):
        table.optimize("q = 1")


def test_invalid_options_are_refused(tmp_path):
    table = make(tmp_path, numbered(4))
    for options in (
        {"target_size": 0},
        {"max_bytes": "1"},
        {"target_size": 10, "min_file_size": 11},
    ):
        with pytest.raises(ConfigError):
            table.optimize(**options)
    with pytest.raises(TableNotFoundError):
        ld.Table.open(tmp_path / "none").optimize()


# --- concurrent commits and failures -----------------------------------------------------------


def test_a_concurrent_append_does_not_conflict(tmp_path, monkeypatch):
    table = make(tmp_path, numbered(8))
    extra = pa.Table.from_pylist(numbered(2, 100))
    before_commit(monkeypatch, lambda: ld.write(tmp_path, extra))
    result = table.optimize()
    assert result.version == 5
    assert table.count() == 10
    assert rows_of(table) == theirs(table)


def test_only_bins_that_a_concurrent_delete_touched_are_rewritten_again(tmp_path, monkeypatch):
    table = make(tmp_path, numbered(40), VECTORS, partition_by=("p",))
    calls = before_commit(monkeypatch, lambda: ld.Table.open(tmp_path).delete("id = 4"))
    result = table.optimize()
    assert len(calls) == 3  # both partitions, then the touched one
    assert result.versions == (5, 6)
    assert len(paths(table)) == 2
    assert 4 not in table.to_arrow()["id"].to_pylist()
    assert table.count() == 39
    assert rows_of(table) == theirs(table)


def test_files_that_a_concurrent_delete_removed_stay_removed(tmp_path, monkeypatch):
    table = make(tmp_path, numbered(40), partition_by=("p",))
    before_commit(monkeypatch, lambda: ld.Table.open(tmp_path).delete("p = 'a'"))
    result = table.optimize()
    assert result.metrics["numRemovedFiles"] == 4
    assert table.count() == 20
    assert rows_of(table) == theirs(table)


def test_bins_that_are_touched_again_and_again_are_left(tmp_path, monkeypatch):
    table = make(tmp_path, numbered(20), VECTORS)
    rewrite, ids = Rewriter.rewrite, iter([0, 5, 10, 15, 1])

    def race(self, *arguments):
        done = rewrite(self, *arguments)
        ld.Table.open(tmp_path).delete(f"id = {next(ids)}")
        return done

    monkeypatch.setattr(Rewriter, "rewrite", race)
    result = table.optimize()
    assert result.versions == ()
    assert "left for a later run" in result.warnings[0]
    assert table.count() == 15


def test_a_concurrent_change_of_the_schema_is_a_conflict(tmp_path, monkeypatch):
    table = make(tmp_path, numbered(8))
    add = ld.Table.open(tmp_path).alter.add_columns
    before_commit(monkeypatch, lambda: add("extra bigint"))
    with pytest.raises(MetadataChangedError):
        table.optimize()
    assert table.count() == 8


def test_an_interrupted_run_keeps_committed_batches(tmp_path, monkeypatch):
    table = make(tmp_path, numbered(40), partition_by=("p",))
    rewrite, calls = Rewriter.rewrite, []

    def fail(self, *arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return rewrite(self, *arguments)

    monkeypatch.setattr(Rewriter, "rewrite", fail)
    with pytest.raises(KeyboardInterrupt):
        table.optimize(batch_bytes=1)
    assert table.version == 4
    assert table.count() == 40
    assert table.optimize().versions == (5,)
    assert len(paths(table)) == 2


def test_a_failed_bin_leaves_no_files(tmp_path, monkeypatch):
    table = make(tmp_path, numbered(40), partition_by=("p",))
    files = {f for f in tmp_path.rglob("*") if f.is_file()}

    def fail(self, snapshot, one):
        raise OSError("no space")

    def before(self, snapshot, one):
        monkeypatch.setattr(Rewriter, "rewrite", fail)
        return rewrite(self, snapshot, one)

    rewrite = Rewriter.rewrite
    monkeypatch.setattr(Rewriter, "rewrite", before)
    monkeypatch.setattr(Rewriter, "bins_at_once", property(lambda _: 1))
    with pytest.raises(OSError, match="no space"):
        table.optimize()
    assert {f for f in tmp_path.rglob("*") if f.is_file()} == files


# --- random tables -----------------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, 9), min_size=1, max_size=6)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("optimize"), st.sampled_from([None, "p = 'a'", "p IS NULL"])),
    ),
    min_size=2, max_size=8,
)  # fmt: skip


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=steps, properties=st.sampled_from([{}, VECTORS]), partitioned=st.booleans())
def test_random_histories_keep_their_rows(tmp_path, steps, properties, partitioned):
    directory = tmp_path / "table"
    shutil.rmtree(directory, ignore_errors=True)
    table = make(directory, numbered(2), properties, ("p",) if partitioned else ())
    expected = [row["id"] for row in numbered(2)]
    history = {}
    for kind, value in steps:
        if kind == "write":
            rows = [{"id": i, "p": [None, "a", "b"][i % 3], "v": 0.0} for i in value]
            table.write(pa.Table.from_pylist(rows, table.schema.to_arrow()))
            expected += value
        elif kind == "delete":
            table.delete(f"id = {value}")
            expected = [i for i in expected if i != value]
        elif value is None or partitioned:
            table.optimize(value)
        assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(expected)
        history[table.version] = rows_of(table)
    assert {version: rows_of(table, version) for version in history} == history
    assert rows_of(table) == theirs(table)


def test_rows_that_a_rewrite_loses_are_not_committed(tmp_path, monkeypatch):
    write = rewriting.write_data_files
    monkeypatch.setattr(
        rewriting, "write_data_files", lambda rows, **how: write(list(rows)[1:], **how)
    )
    table = make(tmp_path, numbered(30))
    version = table.version
    with pytest.raises(InternalError, match="of 30 rows were rewritten"):
        table.optimize()
    assert table.version == version
