"""RESTORE: the rows, schema and properties of an older version, as a new commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import (
    AppendOnlyError,
    CommitConflictError,
    ConfigError,
    FilesNotFoundError,
    TimestampNotFoundError,
    VersionNotFoundError,
)
from lazydelta.operations.maintenance import restore as restore_module
from tests.aged_tables import backdate, files_of
from tests.maintained_tables import (
    FEED,
    VECTORS,
    apply_steps,
    content,
    make,
    rows,
    steps,
)


def test_the_rows_of_an_older_version_are_back(tmp_path):
    table = make(tmp_path / "t", VECTORS)
    table.delete("id = 0")
    table.write(rows(10), mode="overwrite")
    before = [content(table, version) for version in range(3)]
    result = table.restore(1, commit_metadata={"userMetadata": "oops"})
    assert (result.version, result.restored_version, result.committed) == (3, 1, True)
    assert content(table, 3) == before[1]
    assert [content(table, version) for version in range(3)] == before
    assert result.metrics["numRestoredFiles"] == result.metrics["numRemovedFiles"] == 1
    assert result.metrics["numOfFilesAfterRestore"] == 1
    entry = table.history(1)[0]
    assert entry.operation == "RESTORE"
    assert entry.raw["operationParameters"] == {"version": "1"}
    assert entry.raw["operationMetrics"] == {k: str(v) for k, v in result.metrics.items()}
    assert entry.raw["userMetadata"] == "oops"
    assert table.check().ok


def test_a_file_with_another_vector_is_removed_and_added(tmp_path):
    table = make(tmp_path / "t", VECTORS)
    table.delete("id = 0")
    result = table.restore(0)
    assert result.metrics["numRestoredFiles"] == result.metrics["numRemovedFiles"] == 1
    assert content(table, 2) == content(table, 0)
    assert table.count() == 4


def test_a_version_is_found_by_its_time(tmp_path):
    table = make(tmp_path / "t")
    table.delete()
    backdate(table, hours=24)
    at = table.history()[-1].timestamp
    assert table.restore(timestamp=at).restored_version == 0
    with pytest.raises(TimestampNotFoundError):
        table.restore(timestamp="2001-01-01")


def test_schema_properties_and_partitioning_are_restored(tmp_path):
    table = make(tmp_path / "t")
    table.write(pa.table({"x": [1.5]}), mode="overwrite", schema_mode="overwrite")
    table.alter.set_properties({"delta.logRetentionDuration": "interval 3 days"})
    table.restore(0)
    assert list(table.schema.names) == ["id", "p"]
    assert "delta.logRetentionDuration" not in table.metadata.configuration
    table.restore(1)
    assert table.to_arrow().to_pylist() == [{"x": 1.5}]


def test_features_stay_unless_a_downgrade_is_allowed(tmp_path):
    table = make(tmp_path / "t")
    table.alter.set_properties(VECTORS)
    table.restore(0)
    assert "deletionVectors" in table.snapshot().protocol.reader_features
    assert "delta.enableDeletionVectors" not in table.metadata.configuration
    table.restore(0, protocol_downgrade_allowed=True)
    assert table.snapshot().protocol.reader_features is None
    table.restore(1)
    assert "deletionVectors" in table.snapshot().protocol.reader_features


def test_generated_ids_are_not_used_again(tmp_path):
    columns = "id bigint generated always as identity, v bigint"
    table = ld.Table.create(tmp_path / "t", columns)
    table.write(pa.table({"v": [1]}))
    table.write(pa.table({"v": [2, 3]}))
    table.restore(1)
    table.write(pa.table({"v": [9]}))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 4]


def test_nothing_is_committed_if_nothing_differs(tmp_path):
    table = make(tmp_path / "t")
    result = table.restore(0)
    assert (result.committed, result.version, len(table.history())) == (False, 0, 1)


def test_a_dry_run_commits_nothing(tmp_path):
    table = make(tmp_path / "t")
    table.delete()
    result = table.restore(0, dry_run=True)
    assert (result.committed, result.metrics["numRestoredFiles"]) == (False, 1)
    assert table.version == 1


@pytest.mark.parametrize("kind", ["data", "vector"])
def test_missing_files_are_refused_by_name_before_the_commit(tmp_path, kind):
    table = make(tmp_path / "t", VECTORS, partition_by=["p"])
    table.write(rows(0, 20), mode="overwrite")
    table.delete("id = 3")
    table.write(rows(50), mode="overwrite")
    suffix = ".parquet" if kind == "data" else ".bin"
    files = sorted(f for f in files_of(table) if f.endswith(suffix) and "p=50" not in f)
    live = {file.path for file in table.scan().files()}
    gone = next(file for file in files if file not in live)
    Path(Path(table.url) / gone).unlink()
    version = (
        0 if kind == "data" and gone in {f.path for f in table.snapshot(0).scan().files()} else 2
    )
    with pytest.raises(FilesNotFoundError) as caught:
        table.restore(version)
    assert Path(gone).name.split(".")[0] in str(caught.value)
    assert table.version == 3
    result = table.restore(version, ignore_missing_files=True)
    assert len(result.missing_files) == 1
    assert table.to_arrow().num_rows < table.snapshot(version).count()
    assert result.metrics["numOfFilesAfterRestore"] == len(list(table.scan().files()))


def test_a_version_that_is_gone_or_not_there_yet_is_refused(tmp_path):
    table = make(tmp_path / "t")
    with pytest.raises(VersionNotFoundError):
        table.restore(5)
    table.delete()
    table.checkpoint()
    Path(Path(table.url) / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(VersionNotFoundError):
        table.restore(0)
    for options in ({}, {"version": 0, "timestamp": "2026-01-01"}, {"version": -1}):
        with pytest.raises(ConfigError):
            table.restore(**options)


def test_an_append_only_table_is_refused(tmp_path):
    table = make(tmp_path / "t", {"delta.appendOnly": "true"})
    table.write(rows(4))
    with pytest.raises(AppendOnlyError):
        table.restore(0)


def test_a_concurrent_append_is_a_conflict(tmp_path, monkeypatch):
    table = make(tmp_path / "t")
    table.delete()
    original = restore_module._existing

    def meanwhile(*arguments):
        ld.write(table.url, rows(4))
        return original(*arguments)

    monkeypatch.setattr(restore_module, "_existing", meanwhile)
    with pytest.raises(CommitConflictError):
        table.restore(0)
    assert table.count() == 4


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=steps,
    back=st.integers(0, 7),
    properties=st.sampled_from([{}, VECTORS, {**VECTORS, **FEED}]),
    spills=st.booleans(),
)
def test_any_version_of_any_history_is_restored(tmp_path_factory, steps, back, properties, spills):
    directory = tmp_path_factory.mktemp("t")
    table = make(directory, properties, partition_by=["p"])
    apply_steps(table, steps)
    before = [content(table, version) for version in range(table.version + 1)]
    version = max(0, table.version - back)
    config = ld.Config(remove_set_memory_limit=0 if spills else 1 << 20)
    result = ld.Table.open(directory, config=config).restore(version)
    assert content(table, result.version) == before[version]
    assert [content(table, v) for v in range(len(before))] == before
    assert table.check().ok
    if "delta.enableChangeDataFeed" in properties and result.committed:
        check_changes(table, before[-1], before[version], result.version)


def check_changes(table, old, new, version):
    """The change feed of the restore turns the old rows into the new ones."""
    changes = table.changes(starting_version=version).to_arrow().to_pylist()
    state = list(old)
    for change in sorted(changes, key=lambda row: row["_change_type"]):
        row = repr({"id": change["id"], "p": change["p"]})
        (state.remove if change["_change_type"] == "delete" else state.append)(row)
    assert sorted(state) == new
