"""Which versions a range means, and each way in which it cannot be had."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lazydelta.errors import (
    ChangeFeedDisabledError,
    ChangeFeedSchemaError,
    ColumnNotFoundError,
    ConfigError,
    LogCorruptError,
    LogGapError,
    SchemaError,
    TimestampNotFoundError,
    UnsupportedFeatureError,
    VersionCleanedUpError,
    VersionNotCommittedError,
)
from tests.unit.changes.support import FeedTable, changes, feed, ids

BASE = 1_700_000_000_000  # 2023-11-14T22:13:20Z
ON, OFF = ({"delta.enableChangeDataFeed": value} for value in ("true", "false"))


def at(seconds):
    return f"2023-11-14T22:13:{20 + seconds:06.3f}+00:00"


@pytest.fixture
def table(tmp_path):
    """Versions 0 to 3, at seconds 0, 10, 20 and 30, each with one insert."""
    table = FeedTable(tmp_path)
    for version in range(4):
        table.commit(table.add(f"f{version}", {"id": [version]}), at_ms=BASE + 10_000 * version)
    return table


def versions(table, **how):
    return sorted({version for version, _, _ in changes(table, **how)})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"starting_timestamp": at(10)}, [1, 2, 3], id="from-a-commit"),
        pytest.param({"starting_timestamp": at(10.001)}, [2, 3], id="from-between-commits"),
        pytest.param(
            {"starting_timestamp": "1999-01-01"}, [0, 1, 2, 3], id="from-before-the-table"
        ),
        pytest.param({"ending_timestamp": at(20)}, [0, 1, 2], id="to-a-commit"),
        pytest.param({"ending_timestamp": at(19.999)}, [0, 1], id="to-between-commits"),
        pytest.param(
            {"ending_timestamp": "2024-01-01"}, [0, 1, 2, 3], id="to-a-time-without-commits-since"
        ),
        pytest.param({"starting_timestamp": at(5), "ending_timestamp": at(25)}, [1, 2], id="both"),
        pytest.param(
            {"starting_timestamp": at(11), "ending_timestamp": at(12)}, [], id="between-two-commits"
        ),
        pytest.param({"start": 1, "ending_timestamp": at(20)}, [1, 2], id="version-and-time"),
    ],
)
def test_times(table, arguments, expected):
    assert versions(table, **arguments) == expected


def test_an_end_after_the_newest_version_needs_allow_out_of_range(table):
    with pytest.raises(VersionNotCommittedError) as caught:
        feed(table, 2, 9)
    assert (caught.value.requested, caught.value.latest) == (9, 3)
    assert versions(table, start=2, end=9, allow_out_of_range=True) == [2, 3]


def test_a_start_after_the_newest_version_needs_allow_out_of_range(table):
    with pytest.raises(VersionNotCommittedError):
        feed(table, 4)
    found = feed(table, 4, allow_out_of_range=True)
    assert found.num_rows == 0
    assert found.column_names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]


def test_times_after_the_newest_commit_need_allow_out_of_range(table):
    with pytest.raises(TimestampNotFoundError) as caught:
        feed(table, starting_timestamp=at(31))
    assert caught.value.kind == "not-yet"
    assert feed(table, starting_timestamp=at(31), allow_out_of_range=True).num_rows == 0
    with pytest.raises(TimestampNotFoundError):
        feed(table, ending_timestamp="2999-01-01")
    assert versions(table, ending_timestamp="2999-01-01", allow_out_of_range=True) == [0, 1, 2, 3]


def test_an_end_before_the_table(table):
    with pytest.raises(TimestampNotFoundError) as caught:
        feed(table, ending_timestamp="1999-01-01")
    assert caught.value.kind == "before-table"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"start": 3, "end": 1}, id="versions"),
        pytest.param({"starting_timestamp": at(25), "ending_timestamp": at(5)}, id="times"),
        pytest.param({"start": -1}, id="negative"),
        pytest.param({"start": 1, "starting_timestamp": at(5)}, id="two-starts"),
        pytest.param({"end": 1, "ending_timestamp": at(5)}, id="two-ends"),
        pytest.param({"starting_timestamp": "yesterday"}, id="no-time"),
    ],
)
def test_contradictory_ranges_are_refused(table, arguments):
    with pytest.raises(ConfigError):
        feed(table, **arguments)


def test_columns_that_do_not_exist(table):
    with pytest.raises(ColumnNotFoundError, match="_change_typ"):
        feed(table, columns=["_change_typ"])
    with pytest.raises(ColumnNotFoundError):
        feed(table, where="nope = 1")


def test_commits_removed_by_log_cleanup(table):
    table.log.checkpoint(version=2).clean_up(2)
    with pytest.raises(VersionCleanedUpError) as caught:
        feed(table)
    assert caught.value.earliest == 2
    with pytest.raises(TimestampNotFoundError) as missed:
        feed(table, starting_timestamp=at(5))
    assert missed.value.kind == "cleaned-up"
    assert versions(table, start=2) == [2, 3]
    assert versions(table, starting_timestamp=at(20)) == [2, 3]


def test_a_version_with_a_checkpoint_but_no_commit(table):
    table.log.checkpoint(version=2).clean_up(3)
    with pytest.raises(VersionCleanedUpError) as caught:
        feed(table, 2)
    assert caught.value.earliest == 3


def test_a_gap(table):
    table.log.checkpoint(version=3)
    table.log.delete("00000000000000000002.json")
    with pytest.raises(LogGapError) as caught:
        feed(table, 1)
    assert caught.value.missing == (2,)


def test_a_feed_that_was_never_enabled(tmp_path):
    table = FeedTable(tmp_path, configuration=OFF)
    table.commit(table.add("a", {"id": [1]}))
    with pytest.raises(ChangeFeedDisabledError, match=r"enableChangeDataFeed=true") as caught:
        feed(table)
    assert (caught.value.version, caught.value.enabled_from) == (0, None)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_feed_enabled_later(tmp_path):
    table = FeedTable(tmp_path, configuration=OFF)
    table.commit(table.add("a", {"id": [1]}))
    table.commit(table.metadata(configuration=ON))
    table.commit(table.add("b", {"id": [2]}))
    with pytest.raises(ChangeFeedDisabledError, match="Start at version 1") as caught:
        feed(table)
    assert caught.value.version == 0
    assert changes(table, 1) == ids(2, "insert", 2)


def test_a_feed_disabled_later(table):
    table.commit(table.metadata(configuration=OFF))
    table.commit(table.add("x", {"id": [9]}))
    with pytest.raises(ChangeFeedDisabledError) as caught:
        feed(table)
    assert (caught.value.version, caught.value.enabled_from) == (4, None)
    assert versions(table, end=3) == [0, 1, 2, 3]


def test_a_feed_disabled_in_between(table):
    table.commit(table.metadata(configuration=OFF), table.add("x", {"id": [9]}))
    table.commit(table.metadata(configuration=ON), table.add("y", {"id": [10]}))
    with pytest.raises(ChangeFeedDisabledError, match="Start at version 5") as caught:
        feed(table, 1)
    assert caught.value.version == 4
    assert versions(table, start=5) == [5]


def column(name, kind="long", nullable=True, **metadata):
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param([column("other")], "'id' was dropped", id="dropped"),
        pytest.param([column("id", "string")], "was long and is string", id="retyped"),
        pytest.param([column("id", "integer")], "was long and is integer", id="narrowed"),
        pytest.param([column("id", nullable=False)], "became NOT NULL", id="not-null"),
        pytest.param(
            [column("id"), column("x", nullable=False)], "added as NOT NULL", id="new-not-null"
        ),
    ],
)
def test_incompatible_schemas(table, fields, reason):
    table.commit(table.metadata(fields=fields))
    with pytest.raises(ChangeFeedSchemaError, match=reason) as caught:
        feed(table)
    assert (caught.value.version, caught.value.end) == (0, 4)
    assert versions(table, end=3) == [0, 1, 2, 3]


def test_an_incompatible_schema_in_between(table):
    table.commit(table.metadata(fields=[column("id"), column("x")]))
    table.commit(table.metadata(fields=[column("id")]))
    with pytest.raises(ChangeFeedSchemaError, match="'x' was dropped") as caught:
        feed(table, 2)
    assert (caught.value.version, caught.value.end) == (4, 5)


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("byte", "integer", True),
        ("integer", "long", True),
        ("integer", "double", True),
        ("long", "double", False),
        ("float", "double", True),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("integer", "decimal(12,2)", True),
        ("integer", "decimal(11,2)", False),
        ("decimal(5,2)", "decimal(7,3)", True),
        ("decimal(5,2)", "decimal(5,3)", False),
        (struct(column("a")), struct(column("a"), column("b")), True),
        (struct(column("a"), column("b")), struct(column("a")), False),
        (
            {"type": "array", "elementType": "byte", "containsNull": True},
            {"type": "array", "elementType": "long", "containsNull": True},
            True,
        ),
        (
            {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
            {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True},
            False,
        ),
    ],
)
def test_types_between_versions(tmp_path, old, new, fits):
    table = FeedTable(tmp_path)
    table.log.metadata = table.metadata(fields=[column("x", old)])["metaData"]
    table.commit()
    table.commit(table.metadata(fields=[column("x", new)]))
    if fits:
        assert feed(table).num_rows == 0
    else:
        with pytest.raises(ChangeFeedSchemaError, match="'x"):
            feed(table)


def test_a_rename_in_a_mapped_table(tmp_path):
    table = FeedTable(tmp_path, column_mapping="name")
    table.commit(table.add("a", {"col-id": [1]}))
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-id"}
    table.commit(table.metadata(fields=[column("number", **mapped)]))
    table.commit(table.add("b", {"col-id": [2]}))
    with pytest.raises(ChangeFeedSchemaError, match="'id' was renamed to 'number'"):
        feed(table)
    assert feed(table, 1).to_pylist()[0]["number"] == 2


def test_enabling_column_mapping_is_compatible(tmp_path):
    table = FeedTable(tmp_path, {"id": "long"})
    table.log.protocol["readerFeatures"].append("columnMapping")
    table.log.protocol["writerFeatures"].append("columnMapping")
    table.commit(table.add("a", {"id": [1]}))
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}
    name = {"delta.columnMapping.mode": "name"}
    table.commit(table.metadata(fields=[column("id", **mapped)], configuration=name))
    assert changes(table) == ids(0, "insert", 1)


def test_another_partitioning(table):
    body = table.metadata()
    body["metaData"]["partitionColumns"] = ["id"]
    table.commit(body)
    with pytest.raises(ChangeFeedSchemaError, match="partitioned by"):
        feed(table)


def test_a_version_with_an_unsupported_reader_feature(table):
    protocol = table.log.protocol
    strange = protocol | {"readerFeatures": [*protocol["readerFeatures"], "teleport"]}
    table.commit({"protocol": strange})
    table.commit({"protocol": protocol})
    with pytest.raises(UnsupportedFeatureError, match="teleport"):
        feed(table)


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param({"minReaderVersion": 3, "minWriterVersion": 7}, id="no-feature-lists"),
        pytest.param(
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["deletionVectors"]},
            id="reader-feature-for-writers-only",
        ),
        pytest.param({"minReaderVersion": 0, "minWriterVersion": 2}, id="version-0"),
    ],
)
def test_a_contradicting_protocol_inside_the_range(table, protocol):
    table.commit({"protocol": protocol})
    table.commit({"protocol": table.log.protocol})
    with pytest.raises(LogCorruptError, match=r"protocol") as caught:
        feed(table)
    assert caught.value.version == table.log.version - 1


def test_a_table_with_a_reserved_column_name(tmp_path):
    table = FeedTable(tmp_path, {"_Change_Type": "string"})
    table.commit(table.add("a", {"_Change_Type": pa.array(["x"])}))
    with pytest.raises(SchemaError, match="_Change_Type"):
        feed(table)
