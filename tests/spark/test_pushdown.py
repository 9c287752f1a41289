"""Filters and columns of a DataFrame of `read`: what they skip, and that no row is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import lazydelta as ld
from lazydelta.spark import read
from lazydelta.spark.spark_releases import IS_SPARK_4
from tests.spark.cases import interpreting, predicates
from tests.spark.test_read import TASKS, THRESHOLD
from tests.spark.test_read_predicates import BATCH, answers, urls

__all__ = ["urls"]

NEEDS_SPARK_4 = pytest.mark.skipif(
    not IS_SPARK_4, reason="columns of PySpark 3.5 have no SQL text; PySpark 4 runs this"
)


@pytest.fixture
def table(tmp_path):
    """A table of six files with ten ids each, two files in each partition."""
    url = str(tmp_path / "t")
    for at in range(6):
        ids = np.arange(at * 10, at * 10 + 10)
        names = [f"n{n % 3}" for n in ids]
        parts = [f"p{at % 3}"] * 10
        data = pa.table({"id": ids, "name": names, "v": ids * 0.5, "part": parts})
        ld.write(url, data, partition_by=["part"])
    return url


@pytest.fixture(params=["native", "arrow", "executors"])
def frame(request, spark, table):
    """The table by Spark's own scan, by our reader, and with its log replayed by executors."""
    if request.param == "executors":
        spark.conf.set(THRESHOLD, "0")
        spark.conf.set(TASKS, "2")
    yield read(spark, table, path="native" if request.param == "native" else "arrow")
    spark.conf.unset(THRESHOLD)
    spark.conf.unset(TASKS)


def damage_other_files(url, where):
    """Overwrite the data files that cannot have a matching row: a query that reads one fails."""
    kept = {file.path for file in ld.Table.open(url).scan(where).files()}
    for path in Path(url).rglob("part-*.parquet"):
        if str(path.relative_to(url)) not in kept:
            path.write_bytes(b"damaged")


def ids_of(rows):
    return sorted(row.id for row in rows.collect())


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("where", "needed", "ids"),
    [
        ("id = 25", "id = 25", [25]),
        ("ID > 57 OR id < 2", "id > 57 OR id < 2", [0, 1, 58, 59]),
        ("part = 'p0' AND id BETWEEN 8 AND 31", "part = 'p0' AND id < 32", [8, 9, 30, 31]),
        ("id IN (3, 44) AND upper(name) = 'N0'", "id IN (3, 44)", [3]),
        ("`id` = 25 AND name IS NOT NULL", "id = 25", [25]),
    ],
)
def test_a_filter_skips_files(frame, table, where, needed, ids):
    damage_other_files(table, needed)
    assert ids_of(frame.where(where)) == ids
    assert ids_of(frame.filter(where).select("id")) == ids


@NEEDS_SPARK_4
def test_columns_of_the_dataframe_skip_files(frame, table):
    damage_other_files(table, "id BETWEEN 20 AND 39")
    chosen = frame.where((frame.id >= 25) & (f.col("id") < 35)).where(frame["v"] <= 13)
    assert ids_of(chosen) == [25, 26]
    assert ids_of(chosen.select(frame.id.alias("id"), (frame.v + 1).alias("w"))) == [25, 26]
    assert ids_of(chosen.select(frame.id).where(f.col("id").isin(26, 27))) == [26]
    joined = chosen.alias("a").join(chosen.alias("b"), f.col("a.id") == f.col("b.id"))
    assert joined.count() == 2
    assert chosen.unionAll(chosen).count() == 4


def test_columns_that_are_not_selected_are_not_read(spark, tmp_path):
    """A column that the file has in another type fails only if it is read."""
    url = str(tmp_path / "t")
    ld.write(url, pa.table({"id": [1, 2], "v": ["a", "b"]}))
    log = Path(url, "_delta_log", "00000000000000000000.json")
    log.write_text(
        log.read_text().replace(r"\"v\",\"type\":\"string\"", r"\"v\",\"type\":\"date\"")
    )
    frame = read(spark, url, path="arrow")
    assert ids_of(frame.where("id > 0").select("id")) == [1, 2]
    assert frame.selectExpr("id + 1 AS id").count() == 2


def test_columns_out_of_sight(frame):
    """Spark filters and sorts by columns that a `select` left out, and by `_metadata`."""
    chosen = frame.where("id < 30").select("id")
    assert chosen.where("v >= 14").count() == 2
    assert [row.id for row in chosen.orderBy(f.desc("v")).limit(2).collect()] == [29, 28]
    assert [row.id for row in chosen.sort("v", ascending=False).limit(1).collect()] == [29]
    named = frame.where("id < 30").select(f.col("id").alias("n"))
    assert named.where("n > 3").where("v < 3").count() == 2
    assert chosen.withColumn("id", f.col("id") * 2).columns == ["id"]
    with pytest.raises(AnalysisException):
        chosen.where("absent = 1")


def test_metadata_of_files(spark, tmp_path):
    url = str(tmp_path / "t")
    for at in range(3):
        ld.write(url, pa.table({"id": [at, at + 10]}))
    chosen = read(spark, url).where("id < 1")
    names = {Path(name).name for name in chosen.inputFiles()}
    assert len(names) == 1
    assert {row[0] for row in chosen.select("_metadata.file_name").collect()} == names
    assert {row[0] for row in chosen.selectExpr("_metadata.file_name").collect()} == names
    assert {
        row.n for row in chosen.withColumn("n", f.col("_metadata.file_name")).collect()
    } == names
    assert {row[0] for row in chosen.groupBy("_metadata.file_name").count().collect()} == names


def test_a_count_reads_no_data(frame, table):
    damage_other_files(table, "id < 0")
    assert frame.count() == 60
    assert frame.where("part = 'p1'").count() == 20
    assert frame.where("part = 'p1'").where("id IS NOT NULL").select("id", "v").count() == 20


def test_a_count_of_other_rows(frame):
    both = f.explode(f.array("id", f.lit(1))).alias("id")
    assert frame.select(both).count() == 120
    assert frame.where("id < 5").select(f.max("id")).count() == 1
    assert frame.limit(3).count() == 3


def test_a_cached_dataframe_is_not_read_again(spark, table):
    frame = read(spark, table).cache()
    try:
        frame.count()
        damage_other_files(table, "id < 0")
        assert ids_of(frame.where("id = 25").select("id")) == [25]
        assert frame.where("part = 'p1'").count() == 20
    finally:
        frame.unpersist()


def test_conditions_that_depend_on_the_session(spark, tmp_path):
    """Spark decides: quotes, escapes, time zones and functions."""
    url = str(tmp_path / "t")
    ld.write(url, pa.table({"id": [1, 2], "s": ["id", "a\\b"]}))
    session = spark.newSession()
    assert ids_of(read(session, url).where('s = "id"')) == [1]
    assert ids_of(read(session, url).where(r"s = 'a\\b'")) == [2]
    session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    session.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    assert ids_of(read(session, url).where('"id" = 1')) == [1]
    assert ids_of(read(session, url).where(r"s = 'a\b'")) == [2]
    times = str(tmp_path / "times")
    stamps = pa.array([0, 4 * 3_600_000_000], pa.timestamp("us", "UTC"))
    ld.write(times, pa.table({"id": [1, 2], "t": stamps}))
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    assert ids_of(read(session, times).where("t < '1969-12-31 20:00:00'")) == [1]
    assert ids_of(read(session, times).where("hour(t) = 23")) == [2]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A table of five files with numbers in two columns, one up and one down."""
    url = str(tmp_path_factory.mktemp("pairs") / "t")
    for start in range(0, 50, 10):
        up = np.arange(start, start + 10)
        ld.write(url, pa.table({"row": up, "a": up, "b": 49 - up, "c-d": up % 4}))
    return url


COLUMN, NUMBER = st.sampled_from(["a", "b", "c-d"]), st.integers(0, 50)
STEPS = st.one_of(
    st.tuples(st.just("string"), COLUMN, NUMBER),
    st.tuples(st.just("own column"), COLUMN, NUMBER),
    st.tuples(st.just("first column"), COLUMN, NUMBER),
    st.tuples(st.just("function"), COLUMN, NUMBER),
    st.tuples(st.just("select"), st.permutations(["a", "b", "c-d"]), st.integers(0, 3)),
    st.tuples(st.just("swap"), COLUMN, COLUMN),
    st.tuples(st.just("expression"), COLUMN, NUMBER),
    st.tuples(st.just("sort"), COLUMN, NUMBER),
)


def derived(frame, first, steps, refused):
    """Return a DataFrame made by some steps; those that Spark refuses are listed and skipped."""
    for number, (kind, name, value) in enumerate(steps):
        try:
            match kind:
                case "string":
                    frame = frame.where(f"`{name}` < {value} AND a IS NOT NULL")
                case "own column":
                    frame = frame.filter(frame[f"`{name}`"] >= value)
                case "first column":
                    frame = frame.where((first[f"`{name}`"] > value) | (first.row < 7))
                case "function":
                    frame = frame.where(f.abs(f.col(f"`{name}`")) != value)
                case "select":
                    frame = frame.select("row", *(f"`{each}`" for each in name[:value]))
                case "swap":
                    swapped = [f.col(f"`{name}`").alias(value), f.col(f"`{value}`").alias(name)]
                    frame = frame.select("row", *swapped[: 1 + (name != value)])
                case "expression":
                    frame = frame.withColumn("b", f.col(f"`{name}`") + value)
                case "sort":
                    frame = frame.orderBy(f"`{name}`")
        except AnalysisException:
            refused.append((steps, number))
    return frame


def check_steps(spark, url, chains):
    for way in ("native", "arrow"):
        frame = read(spark, url, path=way)
        refused, refused_alone = [], []
        found = answers([derived(frame, frame, steps, refused) for steps in chains])
        alone = frame.alias("alone")
        expected = answers([derived(alone, frame, steps, refused_alone) for steps in chains])
        assert refused == refused_alone, way
        for steps, rows, same in zip(chains, found, expected, strict=True):
            assert rows == same, (way, steps)


CHAINS = st.lists(st.lists(STEPS, max_size=5), min_size=12, max_size=12)


@NEEDS_SPARK_4
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(CHAINS)
def test_some_random_steps(spark, pairs, chains):
    check_steps(interpreting(spark), pairs, chains)


@NEEDS_SPARK_4
@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(CHAINS)
def test_many_random_steps(spark, pairs, chains):
    check_steps(interpreting(spark), pairs, chains)


def check(spark, url, strings):
    """Compare filters of a DataFrame with the same filters by Spark alone."""
    for way in ("native", "arrow"):
        frame = read(spark, url, path=way)
        alone = frame.alias("alone")
        pairs = []
        for where in strings:
            try:
                pairs.append((where, alone.where(where)))
            except AnalysisException:  # Spark does not accept all that we do
                continue
        expected = answers([rows for _, rows in pairs])
        found = answers([frame.where(where) for where, _ in pairs])
        for (where, _), rows, same in zip(pairs, found, expected, strict=True):
            assert rows == same, (way, where)
        assert len(pairs) > len(strings) // 4


@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(predicates(BATCH))
def test_some_random_filters(spark, urls, strings):
    check(interpreting(spark), urls[0], strings)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(predicates(BATCH), st.sampled_from(["America/New_York", "UTC"]))
def test_many_random_filters(spark, urls, strings, zone):
    session = interpreting(spark)
    session.conf.set("spark.sql.session.timeZone", zone)
    check(session, urls[1], strings)
