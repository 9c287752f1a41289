"""Random predicates on a table: Spark returns the rows that a scan in this process returns."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import functions as f

import lazydelta as ld
from lazydelta.spark import read
from lazydelta.spark.row_filter import row_condition, untranslatable_reason
from tests.property.skip_cases import make_files
from tests.spark.cases import interpreting, predicates, rows_of

BATCH = 20
"""Predicates of one Spark job: starting it costs more than the rows."""


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    """Return two tables of the same rows: one without partitions, one with."""
    rows = pa.Table.from_batches([rows_of(make_files(7, 24))])
    rows = rows.append_column("row", pa.array(range(len(rows)), pa.int64()))
    size = -(-len(rows) // 3)
    found = []
    for columns in ((), ("o",)):
        url = str(tmp_path_factory.mktemp("predicates") / "t")
        for start in range(0, len(rows), size):
            ld.write(url, rows.slice(start, size), partition_by=columns)
        found.append(url)
    return found


@pytest.fixture(scope="module")
def session(spark):
    return interpreting(spark)


def answers(frames):
    """Return the rows of each frame, from one job."""
    parts = [frame.select(f.lit(at).alias("at"), "row") for at, frame in enumerate(frames)]
    found = [set() for _ in frames]
    for at, row in reduce(lambda a, b: a.unionAll(b), parts).collect():
        found[at].add(row)
    return found


def check(spark, url, strings, ways=("native", "arrow")):
    snapshot = ld.Table.open(url).snapshot()
    whole = read(spark, url, path="native")
    expected = [
        set(snapshot.scan(where, ["row"]).to_arrow()["row"].to_pylist()) for where in strings
    ]
    for way in ways:
        asked = [
            (where, rows)
            for where, rows in zip(strings, expected, strict=True)
            if way == "arrow" or untranslatable_reason(snapshot, where) is None
        ]
        frames = [
            whole.where(row_condition(snapshot, where))
            if way == "native"
            else read(spark, url, where=where, columns=["row"], path=way)
            for where, _ in asked
        ]
        for (where, rows), found in zip(asked, answers(frames), strict=True):
            assert found == rows, (way, where)


@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(predicates(BATCH))
def test_some_random_predicates(session, urls, strings):
    check(session, urls[0], strings, ["native"])


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(predicates(BATCH))
def test_a_thousand_random_predicates(session, urls, strings):
    check(session, urls[1], strings)


def test_rows_match_do_not_match_and_are_unknown(urls):
    """Guard of the tests above."""
    table = ld.Table.open(urls[0])
    assert all(table.scan(where).count() for where in ("i > 0", "i <= 0", "i IS NULL"))
