"""Write modes, and requests refused before anything is written."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta._failpoints import FailpointError, arm
from lazydelta.errors import (
    AppendOnlyError,
    ConfigError,
    ConstraintViolationError,
    SchemaMismatchError,
    TableExistsError,
    UnsupportedFeatureError,
)
from lazydelta.store import MemoryStore
from lazydelta.store.layers.metered_store import MeteredStore


def rows(url) -> list[dict]:
    ours = ld.Table.open(url).to_arrow().to_pylist()
    theirs = deltalake.DeltaTable(url).to_pyarrow_table().to_pylist()
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
    return sorted(ours, key=repr)


def data_files(url) -> int:
    return len(list(url.rglob("*.parquet"))) - len(list(url.rglob("*.checkpoint.parquet")))


def test_the_first_write_creates_the_table_in_one_commit(tmp_path):
    result = ld.write(tmp_path, {"x": [1, 2]}, name="trips", description="all of them")
    assert (result.version, result.rows, result.files_added) == (0, 2, 1)
    assert result.bytes == sum(file.stat().st_size for file in tmp_path.glob("*.parquet"))
    metadata = ld.Table.open(tmp_path).snapshot().metadata
    assert (metadata.name, metadata.description) == ("trips", "all of them")
    assert rows(tmp_path) == [{"x": 1}, {"x": 2}]


def test_append_is_the_default_of_both_functions(tmp_path):
    ld.write(tmp_path, {"x": [1]})
    ld.write(tmp_path, {"x": [2]})
    ld.Table.open(tmp_path).write({"x": [3]})
    assert sorted(ld.Table.open(tmp_path).to_arrow()["x"].to_pylist()) == [1, 2, 3]


def test_error_leaves_the_table_alone(tmp_path):
    ld.write(tmp_path, {"x": [1]})
    with pytest.raises(TableExistsError, match="append"):
        ld.write(tmp_path, {"x": [2]}, "error")
    assert data_files(tmp_path) == 1


def test_ignore_leaves_the_table_alone(tmp_path):
    assert ld.write(tmp_path, {"x": [1]}, "ignore").skipped is False
    result = ld.write(tmp_path, {"y": [2]}, "ignore")
    assert (result.skipped, result.version, result.rows) == (True, 0, 0)
    assert rows(tmp_path) == [{"x": 1}]


def test_append_adds_and_overwrite_replaces(tmp_path):
    ld.write(tmp_path, {"x": [1]})
    ld.write(tmp_path, {"x": [2]}, "append")
    assert rows(tmp_path) == [{"x": 1}, {"x": 2}]
    result = ld.write(tmp_path, {"x": [3]}, "overwrite")
    assert (result.version, result.files_added, result.files_removed) == (2, 1, 2)
    assert rows(tmp_path) == [{"x": 3}]
    assert ld.Table.open(tmp_path).snapshot(1).to_arrow().num_rows == 2


def test_a_table_is_written_through_its_handle(tmp_path):
    table = ld.Table.open(tmp_path)
    table.write({"x": [1]})
    ld.write(table, {"x": [2]}, "append")
    assert rows(tmp_path) == [{"x": 1}, {"x": 2}]
    with pytest.raises(ConfigError, match="only for an address"):
        ld.write(table, {"x": [2]}, "append", config=ld.Config())


def test_an_overwrite_only_removes_what_it_read(tmp_path):
    """delta-rs #3622: files that were added meanwhile are a conflict, never silently dropped."""
    ld.write(tmp_path, {"x": [1]})

    def parts():
        yield {"x": [2]}
        ld.write(tmp_path, {"x": [9]}, "append")  # while the overwrite is under way
        yield {"x": [3]}

    with pytest.raises(ld.errors.ConcurrentAppendError):
        ld.write(tmp_path, parts(), "overwrite")
    assert rows(tmp_path) == [{"x": 1}, {"x": 9}]


def test_concurrent_appends_both_succeed(tmp_path):
    ld.write(tmp_path, {"x": [1]})

    def parts():
        yield {"x": [2]}
        ld.write(tmp_path, {"x": [3]}, "append")

    assert ld.write(tmp_path, parts(), "append").version == 2
    assert rows(tmp_path) == [{"x": 1}, {"x": 2}, {"x": 3}]


def test_concurrent_first_appends_of_one_schema_both_succeed(tmp_path):
    def parts():
        yield {"x": [2]}
        ld.write(tmp_path, {"x": [1]})

    assert ld.write(tmp_path, parts(), "append").version == 1
    assert rows(tmp_path) == [{"x": 1}, {"x": 2}]


def test_ignore_includes_a_table_created_meanwhile(tmp_path):
    def parts():
        yield {"x": [2]}
        ld.write(tmp_path, {"x": ["text"]})

    done = ld.write(tmp_path, parts(), "ignore")
    assert (done.skipped, done.version, done.rows) == (True, 0, 0)
    assert rows(tmp_path) == [{"x": "text"}]


def test_two_first_writes_of_different_tables_do_not_mix(tmp_path):
    def parts():
        yield {"x": [2]}
        ld.write(tmp_path, {"x": ["text"]})

    with pytest.raises(TableExistsError):
        ld.write(tmp_path, parts(), "append")
    assert rows(tmp_path) == [{"x": "text"}]


@pytest.mark.parametrize(
    "empty", [{"x": pa.array([], pa.int64())}, pa.table({"x": pa.array([], pa.int64())})]
)
def test_no_rows_are_a_version_without_files(tmp_path, empty):
    result = ld.write(tmp_path, empty)
    assert (result.version, result.rows, result.files_added) == (0, 0, 0)
    assert rows(tmp_path) == []
    ld.write(tmp_path, {"x": [1]}, "append")
    assert ld.write(tmp_path, empty, "overwrite").files_removed == 1
    assert rows(tmp_path) == []


def test_empty_batches_between_others_do_no_harm(tmp_path):
    some, none = pa.table({"x": [1]}), pa.table({"x": pa.array([], pa.int64())})
    assert ld.write(tmp_path, iter([none, some, none, some, none])).rows == 2
    assert rows(tmp_path) == [{"x": 1}, {"x": 1}]


# --- once only


def test_an_application_transaction_is_written_once(tmp_path):
    first = ld.write(tmp_path, {"x": [1]}, "append", app_id="job", app_version=7)
    again = ld.write(tmp_path, {"x": [1]}, "append", app_id="job", app_version=7)
    older = ld.write(tmp_path, {"x": [0]}, "append", app_id="job", app_version=6)
    other = ld.write(tmp_path, {"x": [2]}, "append", app_id="other", app_version=1)
    assert [r.already_applied for r in (first, again, older, other)] == [False, True, True, False]
    assert [r.version for r in (first, again, older, other)] == [0, 0, 0, 1]
    assert data_files(tmp_path) == 2
    assert rows(tmp_path) == [{"x": 1}, {"x": 2}]


def test_a_transaction_that_a_rival_commits_first_is_not_repeated(tmp_path):
    ld.write(tmp_path, {"x": [0]})

    def parts():
        yield {"x": [1]}
        ld.write(tmp_path, {"x": [1]}, "append", app_id="job", app_version=1)

    result = ld.write(tmp_path, parts(), "append", app_id="job", app_version=1)
    assert (result.already_applied, result.rows) == (True, 0)
    assert rows(tmp_path) == [{"x": 0}, {"x": 1}]


@pytest.mark.parametrize("mode", ["error", "overwrite", "ignore"])
def test_a_transaction_that_created_the_table_may_be_repeated(tmp_path, mode):
    step = {"app_id": "job", "app_version": 1}

    def parts():
        yield {"x": [1]}
        ld.write(tmp_path, {"x": [1]}, "error", **step)  # the same job, started twice

    assert ld.write(tmp_path, parts(), mode, **step).already_applied
    assert ld.write(tmp_path, {"x": [1]}, mode, **step).already_applied
    assert ld.Table.open(tmp_path).to_arrow().to_pydict() == {"x": [1]}


# --- other schemas


def test_new_columns_are_merged_on_request(tmp_path):
    ld.write(tmp_path, {"x": [1]})
    ld.write(tmp_path, {"x": [2], "y": ["new"]}, "append", schema_mode="merge")
    assert rows(tmp_path) == [{"x": 1, "y": None}, {"x": 2, "y": "new"}]


def test_a_schema_is_replaced_with_all_rows(tmp_path):
    ld.write(tmp_path, {"x": [1], "p": ["a"]}, partition_by="p")
    ld.write(
        tmp_path, {"y": ["b"], "z": [1.5]}, "overwrite", schema_mode="overwrite", partition_by="y"
    )
    assert rows(tmp_path) == [{"y": "b", "z": 1.5}]
    assert ld.Table.open(tmp_path).snapshot().partition_columns == ("y",)
    ld.write(tmp_path, {"x": [1]}, "overwrite", schema_mode="overwrite", partition_by=[])
    assert rows(tmp_path) == [{"x": 1}]
    assert ld.Table.open(tmp_path).snapshot(0).to_arrow().to_pylist() == [{"x": 1, "p": "a"}]


# --- refused before anything is written


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"mode": "upsert"}, "mode"),
        ({"mode": "append", "where": "x = 1"}, "where"),
        ({"mode": "append", "schema_mode": "overwrite"}, "schema_mode"),
        ({"mode": "overwrite", "schema_mode": "overwrite", "where": "x = 1"}, "schema_mode"),
        ({"mode": "append", "schema_mode": "other"}, "schema_mode"),
        ({"mode": "append", "app_id": "a"}, "app_version"),
        ({"mode": "append", "partition_by": ["x"]}, "partitioned by"),
        ({"mode": "append", "properties": {"delta.appendOnly": "true"}}, "table.alter"),
    ],
)
def test_contradicting_options_are_refused(tmp_path, how, match):
    ld.write(tmp_path, {"x": [1], "y": [2]})
    with pytest.raises(ConfigError, match=match):
        ld.write(tmp_path, {"x": [1], "y": [2]}, **how)
    assert data_files(tmp_path) == 1


def test_the_same_call_works_for_the_first_and_for_later_writes(tmp_path):
    how = {"partition_by": "p", "properties": {"delta.dataSkippingNumIndexedCols": "1"}}
    for n in range(3):
        assert ld.write(tmp_path, {"p": ["a"], "x": [n]}, "append", **how).version == n


def test_rows_that_do_not_fit_write_nothing(tmp_path):
    ld.write(tmp_path, {"x": [1]})
    with pytest.raises(SchemaMismatchError):
        ld.write(tmp_path, {"x": ["text"]}, "append")
    with pytest.raises(SchemaMismatchError):
        ld.write(tmp_path, {"y": [1]}, "append")
    assert data_files(tmp_path) == 1


def test_an_append_only_table_is_not_overwritten(tmp_path):
    ld.write(tmp_path, {"x": [1]}, properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError):
        ld.write(tmp_path, {"x": [2]}, "overwrite")
    ld.write(tmp_path, {"x": [2]}, "append")
    assert data_files(tmp_path) == 2


def test_unsupported_features_are_refused_by_name(tmp_path):
    ld.write(tmp_path, {"x": [1]})
    (commit,) = (tmp_path / "_delta_log").glob("*.json")
    lists = '"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["icebergCompatV2"]'
    commit.write_text(
        commit.read_text().replace('"minReaderVersion":1,"minWriterVersion":2', lists)
    )
    for crc in (tmp_path / "_delta_log").glob("*.crc"):
        crc.unlink()
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV2"):
        ld.write(tmp_path, {"x": [2]}, "append")
    assert data_files(tmp_path) == 1


# --- failures on the way


def test_a_source_that_fails_leaves_no_files(tmp_path):
    def parts():
        yield {"x": list(range(1000))}
        raise OSError("the source broke")

    options = ld.WriteOptions(row_group_rows=10, target_file_bytes=1)
    with pytest.raises(OSError, match="the source broke"):
        ld.write(tmp_path, parts(), options=options)
    assert not list(tmp_path.rglob("*.parquet"))
    assert not list(tmp_path.rglob("*.tmp"))
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.parametrize("point", ["data-file-started", "data-file-written"])
def test_a_failure_while_files_are_written_leaves_the_table_as_it_was(tmp_path, point):
    ld.write(tmp_path, {"p": [0], "x": [1]}, partition_by="p")
    with arm(point, "raise", hit=3) as passed, pytest.raises(FailpointError):
        ld.write(tmp_path, {"p": [1, 2, 3, 4], "x": [1, 2, 3, 4]}, "append")
    assert passed[point] >= 3
    assert rows(tmp_path) == [{"p": 0, "x": 1}]
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_small_append_makes_few_requests(tmp_path):
    store = MeteredStore(MemoryStore())
    table = ld.Table(store, ld.Config())
    for n in range(3):
        table.write({"x": [n]})
    store.reset()
    table.write({"x": [9]})
    written = [call.path for call in store.calls if call.operation == "write"]
    assert [path.rpartition(".")[2] for path in written] == ["parquet", "json", "crc"]
    assert store.requests <= 8, store.requests_by_operation()


def test_the_history_records_the_write(tmp_path):
    ld.write(tmp_path, {"x": [1]}, commit_metadata={"why": "nightly"})
    ld.write(tmp_path, {"x": [2]}, "overwrite", where="x = 2")
    newest, first = ld.Table.open(tmp_path).history()
    assert first.raw["why"] == "nightly"
    assert first.raw["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert first.raw["isBlindAppend"] is True
    assert newest.raw["operationParameters"]["predicate"] == "x = 2"
    assert newest.raw["isBlindAppend"] is False
    assert newest.raw["operationMetrics"]["numOutputRows"] == "1"


def described(name, kind, **metadata):
    return pa.field(name, kind, metadata=metadata)


def test_a_new_table_keeps_the_field_metadata_of_the_rows(tmp_path):
    generated = {"delta.generationExpression": "x + 1"}
    schema = pa.schema(
        [
            described("x", pa.int64(), comment="the key", mine="1"),
            described("y", pa.int64(), **generated),
            described("n", pa.int64(), **{"delta.identity.start": "1", "PARQUET:field_id": "3"}),
        ]
    )
    ld.write(tmp_path, pa.table({"x": [1], "y": [2], "n": [3]}, schema=schema))
    snapshot = ld.Table.open(tmp_path).snapshot()
    found = [dict(item.metadata) for item in snapshot.schema]
    assert found == [{"comment": "the key", "mine": "1"}, generated, {}]
    assert snapshot.protocol.min_writer_version == 4
    with pytest.raises(ConstraintViolationError, match="y"):
        ld.write(tmp_path, {"x": [1], "y": [5], "n": [3]}, "append")


def test_a_declared_identity_column_is_kept(tmp_path):
    identity = {"delta.identity.start": "5", "delta.identity.step": "2"}
    identity |= {"delta.identity.allowExplicitInsert": "false"}
    schema = pa.schema([described("id", pa.int64(), **identity), pa.field("x", pa.int64())])
    table = ld.Table.create(tmp_path, schema)
    table.write({"x": [1, 2]})
    assert table.to_arrow()["id"].to_pylist() == [5, 7]


def test_a_merged_column_keeps_its_comment_and_no_constraint(tmp_path):
    ld.write(tmp_path, {"x": [1]})
    rules = {"comment": "new", "CURRENT_DEFAULT": "1", "delta.generationExpression": "x"}
    rows = pa.table(
        {"x": [1], "y": [2]},
        schema=pa.schema([pa.field("x", pa.int64()), described("y", pa.int64(), **rules)]),
    )
    ld.write(tmp_path, rows, "append", schema_mode="merge")
    added = ld.Table.open(tmp_path).snapshot().schema.fields[1]
    assert added.metadata == {"comment": "new"}
