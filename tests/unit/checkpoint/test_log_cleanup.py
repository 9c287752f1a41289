"""Log cleanup: expired versions go, and every retained version reads as before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import ConfigError, StoreError, UnsupportedFeatureError, VersionCleanedUpError
from lazydelta.store.local_store import LocalStore
from lazydelta.testing import TableBuilder
from tests.aged_tables import age, backdate

QUIET = ld.Config(write_checkpoints=False)
V2 = {"delta.checkpointPolicy": "v2"}
DAYS_20 = 24 * 20


def make(directory, versions, properties=None, checkpoints=()):
    table = ld.Table.open(directory, config=QUIET)
    for number in range(versions):
        table.write(pa.table({"id": [number]}), properties={} if number else properties or {})
    for version in checkpoints:
        table.checkpoint(version)
    return table


def log_files(table):
    log = Path(table.url) / "_delta_log"
    return {str(path.relative_to(log)) for path in log.rglob("*") if path.is_file()}


def versions_of(table, suffix):
    return sorted(int(name[:20]) for name in log_files(table) if name.endswith(suffix))


def test_commits_before_the_last_needed_checkpoint_go(tmp_path):
    table = make(tmp_path / "t", 6, checkpoints=[1, 3, 5])
    backdate(table, hours=DAYS_20)  # version 4 was the newest one 30 days ago
    before = log_files(table)
    result = table.cleanup_log()
    assert versions_of(table, ".json") == [3, 4, 5]
    assert versions_of(table, ".checkpoint.parquet") == [3, 5]
    assert versions_of(table, ".crc") == [3, 4, 5]
    assert result.oldest_version == 3
    assert result.files_deleted == result.files_to_delete == len(before - log_files(table)) == 7
    assert result.kinds == {"commit": 3, "checksum": 3, "classic checkpoint": 1}
    assert [table.snapshot(v).to_arrow().num_rows for v in (3, 4, 5)] == [4, 5, 6]
    with pytest.raises(VersionCleanedUpError):
        table.snapshot(2)


def test_a_dry_run_deletes_nothing(tmp_path):
    table = make(tmp_path / "t", 4, checkpoints=[2])
    backdate(table, hours=24 * 90)
    before = log_files(table)
    result = table.cleanup_log(dry_run=True)
    assert (result.files_to_delete, result.files_deleted) == (4, 0)
    assert log_files(table) == before


@pytest.mark.parametrize("checkpoints", [[], [5]])
def test_without_an_old_checkpoint_nothing_goes(tmp_path, checkpoints):
    table = make(tmp_path / "t", 6, checkpoints=checkpoints)
    backdate(table, hours=DAYS_20)
    result = table.cleanup_log()
    assert result.files_deleted == 0
    assert "checkpoint" in result.reason
    assert versions_of(table, ".json") == list(range(6))


def test_young_commits_stay_whatever_the_property_is(tmp_path):
    table = make(
        tmp_path / "t", 4, {"delta.logRetentionDuration": "interval 0 seconds"}, checkpoints=[3]
    )
    backdate(table, hours=0.2)
    assert "within" in table.cleanup_log().reason
    backdate(table, hours=4)
    assert table.cleanup_log().files_deleted == 6


def test_the_property_can_turn_it_off(tmp_path):
    table = make(tmp_path / "t", 4, {"delta.enableExpiredLogCleanup": "false"}, checkpoints=[2])
    backdate(table, hours=24 * 90)
    with pytest.raises(ConfigError, match="enableExpiredLogCleanup"):
        table.cleanup_log()
    assert table.cleanup_log(force=True).files_deleted == 4


def test_a_damaged_checkpoint_is_no_reason_to_delete_what_precedes_it(tmp_path):
    table = make(tmp_path / "t", 6, checkpoints=[1, 3])
    backdate(table, hours=24 * 90)
    damaged = Path(table.url) / "_delta_log" / f"{3:020d}.checkpoint.parquet"
    damaged.write_bytes(damaged.read_bytes()[:200])
    assert table.cleanup_log().oldest_version == 1
    assert table.snapshot(5).to_arrow().num_rows == 6


def test_a_checkpoint_without_its_sidecar_is_no_reason_either(tmp_path):
    table = make(tmp_path / "t", 6, V2, checkpoints=[1, 3])
    backdate(table, hours=24 * 90)
    log = Path(table.url) / "_delta_log"
    (manifest,) = log.glob(f"{3:020d}.checkpoint.*")
    lines = map(json.loads, manifest.read_text().splitlines())
    (sidecar,) = [line["sidecar"]["path"] for line in lines if "sidecar" in line]
    (log / "_sidecars" / sidecar).unlink()
    assert table.cleanup_log().oldest_version == 1
    assert table.snapshot(5).to_arrow().num_rows == 6


def test_sidecars_go_only_if_no_checkpoint_names_them_and_they_are_old(tmp_path):
    table = make(tmp_path / "t", 6, V2, checkpoints=[1, 3, 5])
    sidecars = Path(table.url) / "_delta_log" / "_sidecars"
    for sidecar in sidecars.iterdir():
        age(sidecar, 24 * 300)
    stray, young = sidecars / "stray.parquet", sidecars / "young.parquet"
    stray.write_bytes(b"x")
    young.write_bytes(b"x")
    age(stray, 24 * 300)
    backdate(table, hours=DAYS_20)
    result = table.cleanup_log()
    assert result.kinds["sidecar"] == 2, "the one of version 1, and the stray one"
    assert {path.name for path in sidecars.iterdir()} >= {"young.parquet"}
    assert len(list(sidecars.iterdir())) == 3
    assert [table.snapshot(v).to_arrow().num_rows for v in (3, 4, 5)] == [4, 5, 6]


def test_compactions_before_the_checkpoint_go(tmp_path):
    table = make(tmp_path / "t", 6, checkpoints=[3])
    table.compact_log(1, 2)
    table.compact_log(4, 5)
    backdate(table, hours=24 * 90)
    table.cleanup_log()
    assert [n for n in log_files(table) if "compacted" in n] == [
        f"{4:020d}.{5:020d}.compacted.json"
    ]


@pytest.mark.parametrize(("protected", "deleted"), [(5, 0), (3, 3)])
def test_protected_checkpoints_go_only_together_with_all_before_them(tmp_path, protected, deleted):
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7}
    builder = TableBuilder(
        tmp_path / "t",
        protocol={**protocol, "writerFeatures": ["checkpointProtection"]},
        configuration={"delta.requireCheckpointProtectionBeforeVersion": str(protected)},
    )
    for version in range(6):
        builder.commit(f"+{version}", at_ms=1_700_000_000_000 + version)
    table = ld.Table.open(tmp_path / "t")
    table.checkpoint(3)
    result = table.cleanup_log()
    assert result.files_deleted == deleted
    assert ("checkpointProtection" in result.reason) == (deleted == 0)


def test_what_the_store_refuses_is_not_reported_as_deleted(tmp_path, monkeypatch):
    table = make(tmp_path / "t", 6, checkpoints=[3])
    backdate(table, hours=24 * 90)
    delete = LocalStore.delete

    def refuse(self, paths):
        for path in paths:
            if path.endswith("1.json"):
                raise StoreError(path, "refused")
            delete(self, [path])

    monkeypatch.setattr(LocalStore, "delete", refuse)
    before = log_files(table)
    result = table.cleanup_log()
    assert result.files_deleted == len(before - log_files(table)) < result.files_to_delete
    assert table.snapshot(5).to_arrow().num_rows == 6


def test_a_table_that_cannot_be_written_is_not_cleaned_up(tmp_path, monkeypatch):
    table = make(tmp_path / "t", 2)
    monkeypatch.setattr("lazydelta.checkpoint.log_cleanup.unwritable_features", lambda _: ("new",))
    with pytest.raises(UnsupportedFeatureError):
        table.cleanup_log()


def test_a_commit_with_a_checkpoint_cleans_up_if_the_config_asks_for_it(tmp_path):
    table = make(tmp_path / "t", 5, {"delta.checkpointInterval": "5"}, checkpoints=[3])
    backdate(table, hours=24 * 90)
    config = replace(QUIET, write_checkpoints=True, clean_up_log=True)
    ld.Table.open(table.url, config=config).write(pa.table({"id": [5]}))
    assert versions_of(table, ".json") == [3, 4, 5]
    assert versions_of(table, ".checkpoint.parquet") == [3, 5]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    versions=st.integers(1, 6),
    checkpoints=st.sets(st.integers(0, 5), max_size=3),
    kept=st.integers(0, 6),
    properties=st.sampled_from([{}, V2, {"delta.enableInCommitTimestamps": "true"}]),
)
def test_every_retained_version_reads_as_before(
    tmp_path_factory, versions, checkpoints, kept, properties
):
    table = make(
        tmp_path_factory.mktemp("t"),
        versions,
        {"delta.logRetentionDuration": f"interval {24 * kept} hours", **properties},
        checkpoints=[v for v in checkpoints if v < versions],
    )
    backdate(table, hours=24)
    before = {v: table.snapshot(v).to_arrow().num_rows for v in range(versions)}
    names = log_files(table)
    result = table.cleanup_log()
    oldest = max(0, versions - 1 - kept) if kept else versions - 1
    for version in range(oldest, versions):
        assert table.snapshot(version).to_arrow().num_rows == before[version]
    assert result.files_deleted == len(names - log_files(table))
    assert table.write(pa.table({"id": [1]})).version == versions
