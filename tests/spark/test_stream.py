"""`spark.readStream.format("lazydelta")`: real queries, stopped in the middle and started again."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from lazydelta.spark import register
from tests.unit.changes.support import FeedTable

pytestmark = pytest.mark.spark4

pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="batches have limits from PySpark 4.2 on"
)


def ids(first, count):
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


@pytest.fixture
def table(tmp_path):
    made = FeedTable(tmp_path / "table")
    made.commit(made.add("a", ids(0, 10)), made.add("b", ids(10, 10)))
    made.commit(made.add("c", ids(20, 10)))
    return made


def run(spark, table, sink, **options):
    """Run a query until it has read what there is; return its batches."""
    register(spark)
    reader = spark.readStream.format("lazydelta")
    for name, value in options.items():
        reader = reader.option(name, value)
    query = (
        reader.load(str(table.directory))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(table.directory.parent / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [progress.batchId for progress in query.recentProgress]


class Sink:
    """Keeps the rows of each batch by its number, as an exactly-once sink does."""

    def __init__(self):
        self.batches = {}
        self.fails_at = None
        self.failures = 0

    def __call__(self, frame, number):
        rows = sorted(row.id for row in frame.collect())
        if number == self.fails_at:
            self.failures += 1
            raise RuntimeError("the machine was unplugged")
        self.batches[number] = rows

    @property
    def rows(self):
        return sorted(row for rows in self.batches.values() for row in rows)


def test_every_row_arrives_once_though_the_query_is_stopped_and_the_table_grows(spark, table):
    sink = Sink()
    sink.fails_at = 1
    with pytest.raises(StreamingQueryException, match="unplugged"):
        run(spark, table, sink, maxFilesPerTrigger=1)
    assert sink.failures == 1
    assert sink.rows == list(range(10)), "one batch of one file"
    table.commit(table.add("d", ids(30, 5)), table.add("e", ids(35, 5)))
    table.log.checkpoint()
    sink.fails_at = None
    batches = run(spark, table, sink, maxFilesPerTrigger=1)
    assert sink.rows == list(range(40))
    assert len(batches) == 4
    table.commit(table.remove("a"))
    with pytest.raises(StreamingQueryException) as caught:
        run(spark, table, sink)
    for word in ("version 3", "StreamChangesError", "ignoreDeletes", "skipChangeCommits"):
        assert word in str(caught.value)


def test_an_option_that_no_stream_has_is_named(spark, table):
    with pytest.raises(StreamingQueryException, match="versionAsOf: is not an option") as caught:
        run(spark, table, Sink(), versionAsOf=0)
    assert "UnboundLocalError" not in str(caught.value)
