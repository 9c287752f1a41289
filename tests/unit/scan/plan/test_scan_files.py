from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from lazydelta import Config, Table
from tests.builders import TableBuilder, add
from tests.support import memory_store

FULL = {
    "partition_values": {"day": "2026-01-01", "n": None},
    "stats": {"numRecords": 7, "minValues": {"id": 1}},
    "vector": "v1",
    "size": 123,
    "modificationTime": 1_767_225_600_000,
    "tags": {"k": "v"},
    "baseRowId": 5,
    "defaultRowCommitVersion": 2,
    "clusteringProvider": "liquid",
}


def one_file(path, *, checkpoint=None, local=True, **fields):
    store = memory_store(local=local)
    table = TableBuilder(
        store, schema={"id": "long", "day": "date", "n": "integer"}, partition_by=["day", "n"]
    )
    table.commit(add(path, **fields))
    if checkpoint is not None:
        table.checkpoint(**checkpoint).clean_up(1)
    with Table(store, Config()).scan().files() as files:
        (file,) = files
    return file


@pytest.mark.parametrize(
    "checkpoint",
    [
        None,
        {},
        {"kind": "v2-json", "parts": 0},
        {"stats_parsed": True, "partition_values_parsed": True},
        {"stats_json": False, "stats_parsed": True},
    ],
    ids=["commit", "checkpoint", "inline", "parsed", "parsed-only"],
)
def test_a_file_has_every_field_of_its_add_action(checkpoint):
    file = one_file("day=2026-01-01/a%20b", checkpoint=checkpoint, **FULL)
    assert file.raw_path == "day=2026-01-01/a%20b"
    assert file.path == "day=2026-01-01/a b"
    assert file.uri.endswith("/memory/day=2026-01-01/a%20b") or file.uri.endswith(
        "/memory/day=2026-01-01/a b"
    )
    assert file.size == 123
    assert file.modification_time == datetime(2026, 1, 1, tzinfo=UTC)
    assert file.partition_values == {"day": date(2026, 1, 1), "n": None}
    assert file.raw_partition_values == {"day": "2026-01-01", "n": None}
    assert file.num_records == 7
    assert file.tags == {"k": "v"}
    assert (file.base_row_id, file.default_row_commit_version) == (5, 2)
    assert file.clustering_provider == "liquid"
    vector = file.deletion_vector
    assert (vector.storage_type, vector.offset, vector.size_in_bytes, vector.cardinality) == (
        "u",
        1,
        36,
        1,
    )
    assert vector.path_or_inline_dv == "0" * 18 + "v1"
    assert file.version == (None if checkpoint is not None else 0)
    if checkpoint is None or checkpoint.get("stats_json", True):
        assert file.stats == FULL["stats"]
    assert "a b" in repr(file)


def test_missing_fields_of_an_add_are_none():
    file = one_file("a")
    assert file.deletion_vector is None
    assert file.num_records is None
    assert file.stats is None
    assert file.tags == {}
    assert file.partition_values == {"day": None, "n": None}


@pytest.mark.parametrize("stats", ["not json", "[]", "{", '{"numRecords": "many"}', "null", '"x"'])
def test_malformed_statistics_are_ignored(stats):
    file = one_file("a", stats=stats)
    assert file.path == "a"
    assert file.num_records is None


@pytest.mark.parametrize(
    "again",
    [
        "a%20b",
        "a b",
        "./a b",
        "x/../a b",
        "/memory/a%20b",
        "file:///memory/a%20b",
        "file:/memory/a%20b",
    ],
)
def test_equivalent_paths_have_one_key(again):
    store = memory_store()
    TableBuilder(store).commit(add("a%20b"), add("c")).commit(
        {"remove": {"path": again, "dataChange": True}}
    )
    for strategy in ("reverse", "forward"):
        with Table(store, Config()).scan(strategy=strategy).files() as files:
            assert [file.path for file in files] == ["c"]


def test_a_path_is_decoded_once():
    assert one_file("a%2520b").path == "a%20b"


@pytest.mark.parametrize("path", ["/etc/passwd", "s3://other/x", "../../x", "file:///etc/passwd"])
def test_listing_returns_raw_paths_and_opens_no_file(path):
    assert one_file(path).raw_path == path


def test_batches_have_the_documented_columns():
    store = memory_store()
    TableBuilder(store).commit("+a").checkpoint().commit("+b")
    scan = Table(store, Config()).scan()
    for all_fields, more in ((False, []), (True, ["num_records", "stats", "tags", "base_row_id"])):
        with scan.file_batches(all_fields=all_fields) as batches:
            schemas = {tuple(batch.schema.names) for batch in batches}
        assert len(schemas) == 1
        names = set(schemas.pop())
        assert names >= {
            "path",
            "size",
            "modification_time",
            "partition_values",
            "deletion_vector",
            "version",
            *more,
        }
