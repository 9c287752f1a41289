"""Pinned bundles: the same snapshot again, or an error with the reason."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest

import lazydelta as ld
from lazydelta.errors import BundleMismatchError, ConfigError, VersionNotCommittedError
from lazydelta.scan import check_bundle
from lazydelta.store import open_store
from lazydelta.store.layers.metered_store import MeteredStore
from tests.builders import TableBuilder


@pytest.fixture
def builder(tmp_path):
    builder = TableBuilder(tmp_path / "t")
    builder.commit("+a +b")
    builder.commit("-a +c#dv1")
    builder.commit("+d")
    return builder


@pytest.fixture
def table(builder, tmp_path):
    return tmp_path / "t"


def test_a_bundle_opens_the_pinned_version_again(table):
    bundle = ld.Table.open(table).snapshot(1).pin()
    again = ld.Table.open_bundle(bundle.to_json())
    assert again.version == 1
    assert sorted(f.path for f in again.scan().files()) == ["b", "c"]


def test_a_bundle_records_its_selector(tmp_path):
    built, moment = TableBuilder(tmp_path / "t"), datetime(2026, 5, 1, 12, tzinfo=UTC)
    for days, files in enumerate(("+a", "+b", "+c", "+d"), start=-2):
        at = moment + timedelta(days=days)
        built.commit(files, at_ms=int(at.timestamp() * 1000))
    opened = ld.Table.open(tmp_path / "t")
    by_time, by_version = opened.snapshot(timestamp=moment).pin(), opened.snapshot(2).pin()
    assert by_time.selector == {"timestamp_rfc3339": moment.isoformat()}
    assert by_version.selector == {"version": 2}
    assert by_time.load_api != by_version.load_api
    assert by_time.snapshot_hash == by_version.snapshot_hash
    assert ld.Table.open_bundle(by_time.to_json()).version == by_time.resolved_version == 2


def test_the_hash_does_not_depend_on_the_layout_of_the_log(builder, table):
    before = ld.Table.open(table).snapshot(1).pin()
    builder.checkpoint(version=1)
    assert ld.Table.open(table).snapshot(1).segment.checkpoint is not None
    assert ld.Table.open(table).snapshot(1).pin() == before


def test_pinning_reads_one_commit(builder, table):
    builder.checkpoint(version=2)
    builder.commit("+e")
    store = MeteredStore(open_store(table))
    snapshot = ld.Table(store, ld.Config()).snapshot()
    store.reset()
    bundle = snapshot.pin()
    commit = f"_delta_log/{3:020d}.json"
    assert [call.path for call in store.calls] == [commit]
    store.reset()
    check_bundle(bundle, snapshot)
    assert [call.path for call in store.calls] == [commit]


def test_a_rewritten_commit_is_refused(builder, table):
    bundle = ld.Table.open(table).snapshot(2).pin()
    commit = table / "_delta_log" / f"{2:020d}.json"
    body = commit.read_text()
    commit.write_text(body.replace('"path":"d"', '"path":"x"'))
    assert commit.read_text() != body
    with pytest.raises(BundleMismatchError, match="replaced or rewritten"):
        ld.Table.open_bundle(bundle)


def test_a_replaced_table_with_the_same_commits_is_refused(builder, table):
    bundle = ld.Table.open(table).snapshot(2).pin()
    first = table / "_delta_log" / f"{0:020d}.json"
    table_id = ld.Table.open(table).snapshot().metadata.id
    first.write_text(first.read_text().replace(table_id, "another"))
    with pytest.raises(BundleMismatchError):
        ld.Table.open_bundle(bundle)


def test_log_cleanup_leaves_a_bundle_valid(builder, table):
    bundle = ld.Table.open(table).snapshot(1).pin()
    builder.checkpoint(version=1)
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    assert ld.Table.open_bundle(bundle).version == 1
    again = ld.Table.open(table).snapshot(1).pin()
    assert again.commit_hash == ""
    assert ld.Table.open_bundle(again).version == 1


def test_a_recreated_table_is_refused(table, tmp_path):
    bundle = ld.Table.open(table).snapshot(1).pin()
    shutil.rmtree(table)
    other = TableBuilder(tmp_path / "t")
    other.commit("+a +b")
    other.commit("+x")
    with pytest.raises(BundleMismatchError, match="pin it again"):
        ld.Table.open_bundle(bundle)
    assert ld.Table.open_bundle(bundle, verify=False).version == 1


def test_a_missing_version_raises(table):
    bundle = ld.Table.open(table).snapshot(2).pin()
    (table / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(VersionNotCommittedError):
        ld.Table.open_bundle(bundle)


@pytest.mark.parametrize("document", ["", "[]", '{"format": 1}', '{"x": 1}'])
def test_invalid_bundles_are_refused(document):
    with pytest.raises(ConfigError, match="bundle"):
        ld.Table.open_bundle(document)


def test_a_bundle_of_another_format_is_refused(table):
    fields = json.loads(ld.Table.open(table).snapshot().pin().to_json())
    with pytest.raises(ConfigError, match="format 9"):
        ld.Table.open_bundle(json.dumps({**fields, "format": 9}))


def test_retention_names_the_property_that_is_too_short(table):
    found = ld.Table.open(table).snapshot().check_retention(timedelta(days=14))
    assert found.too_short == ("delta.deletedFileRetentionDuration",)
    assert ld.Table.open(table).snapshot().check_retention(timedelta(days=7)).ok
