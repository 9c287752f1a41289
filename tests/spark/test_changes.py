"""`lazydelta.spark.changes`: the change feed of `Table.changes`, read by executors."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import VersionNotCommittedError
from lazydelta.spark import changes, register
from lazydelta.spark.spark_releases import collect_arrow
from tests.unit.changes.support import FeedTable


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A feed with inserts, a delete by vector, an update by change file and a removed file."""
    made = FeedTable(
        tmp_path_factory.mktemp("feed"),
        schema={"id": "long", "at": "timestamp", "day": "date"},
        partition_by=["day"],
    )
    at = pa.array([1_700_000_000_000_000, None, 0], pa.timestamp("us", "UTC"))

    def rows(first):
        return pa.table({"id": pa.array(range(first, first + 3), pa.int64()), "at": at})

    day = {"values": {"day": "2026-01-01"}}
    made.commit(made.add("a", rows(0), **day), made.add("b", rows(10), values={"day": None}))
    made.commit(made.remove("a", **day), made.add("a", deleted=[1], **day))
    kinds = pa.array(["update_preimage", "update_postimage", "insert"])
    made.commit(
        made.cdc("c", rows(20).append_column("_change_type", kinds), **day),
        made.add("d", rows(20), **day),
    )
    made.commit(made.remove("b", values={"day": None}))
    return made.directory


def plain(table):
    return sorted(repr(row) for row in table.to_pylist())


def test_changes_are_those_of_the_feed_in_this_process(spark, directory):
    expected = Table.open(directory).changes().to_arrow()
    found = changes(spark, str(directory))
    assert found.schema.names == expected.schema.names
    assert len(expected) == 13
    assert plain(collect_arrow(found).cast(expected.schema)) == plain(expected)


def test_range_columns_and_filter_are_part_of_the_plan(spark, directory):
    request = {
        "starting_version": 1,
        "ending_version": 3,
        "columns": ["_change_type", "id"],
        "where": "_change_type = 'delete' AND id < 11",
    }
    found = changes(spark, str(directory), **request).collect()
    assert sorted(map(tuple, found)) == [("delete", 1), ("delete", 10)]
    with pytest.raises(VersionNotCommittedError):
        changes(spark, str(directory), ending_version=9)
    nothing = changes(spark, str(directory), starting_version=9, allow_out_of_range=True)
    assert nothing.count() == 0


@pytest.mark.spark4
def test_the_format_reads_changes_too(spark, directory):
    register(spark)
    reader = spark.read.format("lazydelta").option("readChangeFeed", "true")
    found = reader.option("startingVersion", 1).option("endingVersion", 2).load(str(directory))
    expected = Table.open(directory).changes(starting_version=1, ending_version=2).to_arrow()
    assert plain(collect_arrow(found).cast(expected.schema)) == plain(expected)
    deleted = found.where("_change_type = 'delete' AND _commit_version = 1").collect()
    assert [row.id for row in deleted] == [1]
