"""`attach` and `lazydelta.spark.sql`: names of tables, Delta's statements, and Spark's own."""

from __future__ import annotations

import datetime as dt
import itertools
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lazydelta as ld
import lazydelta.spark as lds
from lazydelta.errors import (
    ArgumentError,
    ConfigError,
    ConstraintViolationError,
    QueryError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
)
from lazydelta.spark.delta_api import IdentityGenerator
from lazydelta.spark.table_names import session_time

MAPPED = {"delta.columnMapping.mode": "name"}

pytestmark = pytest.mark.spark4  # tests/spark/test_spark_releases.py has statements for paths

_NUMBERS = itertools.count()


def written(path):
    url = str(path / "t")
    ld.write(url, pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]}), partition_by="day")
    return url


def attached(spark, url):
    name = f"sales_{next(_NUMBERS)}"
    lds.attach(spark, {name: url})
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def url(tmp_path):
    return written(tmp_path)


@pytest.fixture
def name(spark, url):
    """A name of the table that no other test has."""
    yield from attached(spark, url)


@pytest.fixture(scope="module")
def shared_url(tmp_path_factory):
    """A table that no test changes: to attach one takes longer than most queries."""
    return written(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def shared_name(spark, shared_url):
    yield from attached(spark, shared_url)


@pytest.fixture
def sql(spark):
    def run(statement):
        return sorted(tuple(row) for row in lds.sql(spark, statement).collect())

    return run


def test_a_name_shows_the_newest_version_through_spark_too(spark, name, url, sql):
    count = f"SELECT count(*) FROM {name}"
    assert spark.sql(count).first()[0] == 3
    ld.write(url, {"id": [4], "day": ["c"]})
    assert spark.sql(count).first()[0] == 4
    spark.sql(f"INSERT INTO {name} VALUES (5, 'd')")
    assert sql(count) == [(5,)]


def test_dropping_a_name_leaves_the_files(spark, name, url):
    spark.sql(f"DROP TABLE {name}")
    assert ld.Table.open(url).count() == 3


def test_a_name_can_be_pinned_to_a_version(spark, name, url, sql):
    ld.write(url, {"id": [4], "day": ["c"]})
    lds.attach(spark, {name: f"{url}@v0"})
    assert spark.sql(f"SELECT count(*) FROM {name}").first()[0] == 3
    assert sql(f"SELECT count(*) FROM {name}") == [(3,)]
    with pytest.raises(ConfigError, match="can only be read"):
        sql(f"DELETE FROM {name}")


def test_a_name_of_something_else_is_not_taken(spark, url):
    spark.sql("CREATE TEMPORARY VIEW taken_view AS SELECT 1 AS id")
    with pytest.raises(ConfigError, match="belongs to another table or view"):
        lds.attach(spark, {"taken_view": url})
    with pytest.raises(TableNotFoundError):
        lds.attach(spark, {"nothing": f"{url}-not-there"})


def test_a_query_follows_a_change_of_columns(spark, name, url, sql):
    ld.Table.open(url).alter.add_columns("x int")
    assert sql(f"SELECT x FROM {name} WHERE id = 1") == [(None,)]
    with pytest.raises(PySparkException, match=r"attach|create it again"):
        spark.sql(f"SELECT * FROM {name}").collect()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT {name}.id, '{{x}}' FROM {name} WHERE {name}.day = 'b'", [(3, "{x}")]),
        ("SELECT {name}.id FROM default.{name} WHERE day = 'b'", [(3,)]),
        ("WITH x AS (SELECT * FROM {name}) SELECT count(*) FROM x JOIN {name} USING (id)", [(3,)]),
        ("WITH {name} AS (SELECT 7 AS id) SELECT * FROM {name}", [(7,)]),
        ("SELECT max(id) FROM delta.`{url}`", [(3,)]),
        ("SELECT max(t.id) FROM lazydelta.`{url}@v0` AS t", [(3,)]),
        ("SELECT {name}.id FROM {name} VERSION AS OF 0 WHERE day = 'b'", [(3,)]),
        ("SELECT count(*) FROM {name} TIMESTAMP AS OF '2999-01-01'", None),
        ("SELECT (SELECT max(id) FROM {name}) + 1 AS y", [(4,)]),
        ("SELECT 1 AS x", [(1,)]),
    ],
)
def test_queries_name_tables_paths_and_versions(shared_name, shared_url, sql, query, expected):
    statement = query.format(name=shared_name, url=shared_url)
    if expected is None:
        with pytest.raises(LookupError):  # the future
            sql(statement)
    else:
        assert sql(statement) == expected


def test_parameters_reach_the_query(spark, shared_name):
    found = lds.sql(spark, f"SELECT id FROM {shared_name} WHERE day = :day", {"day": "b"})
    assert [tuple(row) for row in found.collect()] == [(3,)]


def test_rows_are_changed_by_statements(spark, name, url, sql):
    assert sql(f"INSERT INTO {name} VALUES (4, 'c'), (5, DEFAULT)") == [(2, 2)]
    assert sql(f"INSERT INTO {name} (day, id) SELECT 'd', 6") == [(1, 1)]
    assert sql(f"UPDATE {name} AS t SET id = t.id * 10 WHERE t.day = 'a'") == [(2,)]
    assert sql(f"DELETE FROM {name} WHERE id = 6") == [(1,)]
    merged = sql(
        f"MERGE INTO {name} AS t USING (SELECT 4 AS id, 'z' AS day UNION SELECT 9, 'z') AS s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET day = s.day WHEN NOT MATCHED THEN INSERT *"
    )
    assert merged == [(2, 1, 0, 1)]
    sql(f"INSERT INTO {name} BY NAME SELECT 'y' AS day, 11 AS id")
    rows = {(r["id"], r["day"]) for r in ld.Table.open(url).to_arrow().to_pylist()}
    expected = {(10, "a"), (20, "a"), (3, "b"), (4, "z"), (5, None), (9, "z"), (11, "y")}
    assert rows == expected
    sql(f"INSERT OVERWRITE {name} VALUES (1, 'x')")
    assert sql(f"SELECT * FROM {name}") == [(1, "x")]
    assert ld.Table.open(url).history(1)[0].raw["operationParameters"]["mode"] == "Overwrite"


def test_an_insert_casts_as_spark_stores_values(spark, tmp_path, sql):
    url = tmp_path / "t"
    ld.Table.create(url, "id int, fare double, `a b` string, at date", properties=MAPPED)
    sql(f"INSERT INTO delta.`{url}` VALUES (1L, 3.5, 2, TIMESTAMP '2026-01-02 03:04:05')")
    sql(f"INSERT INTO delta.`{url}` (Fare, ID) SELECT 1.25, 2L")
    rows = ld.Table.open(url).to_arrow().sort_by("id")
    assert rows["fare"].to_pylist() == [3.5, 1.25]
    assert rows["a b"].to_pylist() == ["2", None]
    assert rows["at"].to_pylist() == [dt.date(2026, 1, 2), None]
    with pytest.raises(SchemaMismatchError, match=r"'id': the table has int, the value is string"):
        sql(f"INSERT INTO delta.`{url}` (id) VALUES ('7')")
    with pytest.raises(PySparkException, match="CAST_OVERFLOW"):
        sql(f"INSERT INTO delta.`{url}` (id) VALUES (3000000000)")
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    with pytest.raises(SchemaMismatchError):
        lds.sql(session, f"INSERT INTO delta.`{url}` (id) VALUES (3000000000)")
    assert ld.Table.open(url).count() == 2


def test_an_insert_replaces_a_partition_or_the_rows_of_a_condition(spark, tmp_path, sql):
    url = f"{tmp_path}/t"
    table = f"delta.`{url}`"
    days = [dt.date(2026, 1, day) for day in (1, 1, 2)]
    ld.write(url, pa.table({"day": days, "id": [1, 2, 3]}), partition_by="day")
    assert sql(f"INSERT OVERWRITE {table} PARTITION (day = '2026-01-01') SELECT 4L") == [(1, 1)]
    sql(f"INSERT INTO {table} PARTITION (day = DATE '2026-01-03') (id) VALUES (5)")
    sql(f"INSERT INTO {table} PARTITION (day) SELECT DATE '2026-01-03', 6L")
    assert sql(f"SELECT day(day), id FROM {table}") == [(1, 4), (2, 3), (3, 5), (3, 6)]
    sql(f"INSERT INTO {table} REPLACE WHERE id > 4 SELECT DATE '2026-01-04', 7L")
    assert sql(f"SELECT id FROM {table}") == [(3,), (4,), (7,)]
    with pytest.raises(ConstraintViolationError, match="do not match the predicate"):
        sql(f"INSERT INTO {table} REPLACE WHERE id > 4 VALUES (DATE '2026-01-04', 1)")
    with pytest.raises(QueryError, match="partitioned by day"):
        sql(f"INSERT INTO {table} PARTITION (id = 1) SELECT DATE '2026-01-04'")
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        sql(f"INSERT OVERWRITE {table} PARTITION (day = 'x') VALUES (1)")


def test_an_overwrite_is_static_or_dynamic_as_the_session_says(spark, tmp_path, sql):
    url = f"{tmp_path}/t"
    table = f"delta.`{url}`"
    rows = {"id": [1, 2, 3], "a": ["x", "x", "y"], "b": [1, 2, 1]}
    overwrite = f"INSERT OVERWRITE {table} PARTITION (a = 'x', b) SELECT 9L, 2L"
    for mode, left in {"dynamic": [(1,), (3,), (9,)], "static": [(3,), (9,)]}.items():
        ld.write(url, pa.table(rows), "overwrite", partition_by=["a", "b"])
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
        try:
            sql(overwrite)
        finally:
            spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        assert sql(f"SELECT id FROM {table}") == left


def test_a_merge_adds_columns_if_the_session_says_so(spark, url, sql):
    setting = "spark.databricks.delta.schema.autoMerge.enabled"
    spark.conf.set(setting, "true")
    try:
        sql(
            f"MERGE INTO delta.`{url}` t USING (SELECT 9L AS id, 'a' AS day, 7 AS more) s "
            "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        spark.conf.unset(setting)
    assert sql(f"SELECT more FROM delta.`{url}` WHERE id = 9") == [(7,)]


@pytest.mark.long
def test_a_merge_reads_views_and_attached_names(spark, name, url, sql):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW news_{name} AS SELECT 3L AS id, 'n' AS day")
    sql(f"MERGE INTO delta.`{url}` t USING news_{name} s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert sql(f"SELECT count(*) FROM {name}") == [(2,)]
    sql(f"MERGE INTO {name} USING {name} AS s ON {name}.id = s.id WHEN MATCHED THEN DELETE")
    assert sql(f"SELECT count(*) FROM {name}") == [(0,)]


def test_columns_are_changed_by_statements(spark, name, url, sql):
    sql(f"ALTER TABLE {name} ADD COLUMNS (x int, y string)")
    sql(f"ALTER TABLE {name} ALTER COLUMN x COMMENT 'new'")
    sql(f"ALTER TABLE delta.`{url}` ADD CONSTRAINT small CHECK (id < 100)")
    found = ld.Table.open(url)
    assert found.columns == ("id", "day", "x", "y")
    assert found.schema.find(["x"])[0].metadata["comment"] == "new"
    assert sql(f"SELECT x FROM {name} WHERE id = 1") == [(None,)]
    with pytest.raises(QueryError, match="expected ADD, DROP, RENAME"):
        sql(f"ALTER TABLE {name} REPLACE COLUMNS (id bigint)")


@pytest.mark.long
def test_tables_are_maintained_by_statements(spark, name, url, sql):
    ld.write(url, {"id": [4], "day": ["a"]})
    ((path, metrics),) = sql(f"OPTIMIZE {name} WHERE day = 'a'")
    assert (path, metrics.numFilesAdded, metrics.numFilesRemoved) == (url, 1, 2)
    sql(f"OPTIMIZE {name} ZORDER BY (id)")
    assert sql(f"VACUUM {name} RETAIN 1000 HOURS") == [(url,)]
    with pytest.raises(ConfigError, match="retention"):
        sql(f"VACUUM {name} RETAIN 0 HOURS")
    history = lds.sql(spark, f"DESCRIBE HISTORY {name} LIMIT 100").collect()
    assert {"WRITE", "OPTIMIZE"} <= {row.operation for row in history}
    assert lds.sql(spark, f"DESCRIBE DETAIL delta.`{url}`").first().partitionColumns == ["day"]
    sql(f"RESTORE TABLE {name} TO VERSION AS OF 0")
    assert sql(f"SELECT count(*) FROM {name}") == [(3,)]
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES (k = 'v', 'delta.appendOnly' = 'false')")
    assert sql(f"SHOW TBLPROPERTIES {name} ('k')") == [("k", "v")]
    sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES (k)")
    assert sql(f"SHOW TBLPROPERTIES {name}") == [("delta.appendOnly", "false")]


def test_tables_are_created_by_statements(spark, tmp_path, sql):
    place, name = tmp_path / "made", f"made_{next(_NUMBERS)}"
    create = (
        f"CREATE TABLE {name} (id bigint NOT NULL, b bigint GENERATED ALWAYS AS (id + 1)) "
        f"USING delta PARTITIONED BY (b) LOCATION '{place}' COMMENT 'c' TBLPROPERTIES ('k' = 'v')"
    )
    sql(create)
    with pytest.raises(TableExistsError):
        sql(create)
    sql(create.replace("TABLE", "TABLE IF NOT EXISTS"))
    sql(f"INSERT INTO {name} (id) VALUES (1)")
    assert sql(f"SELECT * FROM {name}") == [(1, 2)]
    assert ld.Table.open(place).metadata.description == "c"
    sql(f"CREATE OR REPLACE TABLE {name} USING delta AS SELECT 'x' AS s")
    assert sql(f"SELECT * FROM {name}") == [("x",)]
    other = f"{name}_too"
    sql(f"CREATE TABLE {other} USING lazydelta LOCATION '{place}'")
    assert sql(f"SELECT * FROM {other}") == [("x",)]
    with pytest.raises(ConfigError, match="list its columns"):
        sql(f"CREATE TABLE {name}_no USING delta LOCATION '{tmp_path / 'nothing'}'")
    for one in (name, other):
        spark.sql(f"DROP TABLE {one}")


@pytest.mark.long
def test_a_table_without_a_location_is_created_below_its_database(spark, sql):
    name = f"placed_{next(_NUMBERS)}"
    sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    found = lds.DeltaTable.forName(spark, name).detail().first().location
    assert found.endswith(f"/{name}")
    spark.sql(f"DROP TABLE {name}")
    assert ld.Table.open(found).count() == 1


def test_rows_with_identity_values_are_inserted_in_this_process(spark, tmp_path, sql):
    url = tmp_path / "ids"
    lds.DeltaTable.create(spark).location(str(url)).addColumn(
        "id", "bigint", generatedAlwaysAs=IdentityGenerator(start=5)
    ).addColumn("v", "bigint").execute()
    sql(f"INSERT INTO delta.`{url}` (v) VALUES (1), (2)")
    assert sql(f"SELECT * FROM delta.`{url}`") == [(5, 1), (6, 2)]


def test_statements_for_other_tables_are_sparks(spark, sql):
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("DELETE FROM nowhere_at_all WHERE x = 1")
    with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
        sql("UPDATE nowhere_at_all SET")
    sql("CREATE OR REPLACE TEMPORARY VIEW of_spark AS SELECT 1 AS x")
    assert sql("SELECT * FROM of_spark") == [(1,)]


def test_an_error_in_a_statement_for_our_table_is_ours(shared_name, sql):
    with pytest.raises(QueryError, match="expected"):
        sql(f"DELETE FROM {shared_name} WHERE")
    with pytest.raises(QueryError, match="3 values for 2 columns"):
        sql(f"INSERT INTO {shared_name} SELECT 1, 2, 3")


def test_a_long_statement_for_our_table_is_ours(shared_name, sql):
    assigned = ", ".join(f"c{number} = 1" for number in range(60))
    with pytest.raises(QueryError):
        sql(f"UPDATE {shared_name} SET {assigned} WHERE")


@pytest.mark.parametrize("zone", ["+01:00", "Africa/Algiers"])
def test_a_timestamp_is_in_the_time_zone_of_the_session(spark, zone):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    assert session_time(session, "2026-05-01 10:00") == datetime(2026, 5, 1, 9, tzinfo=UTC)
    assert session_time(session, "2026-05-01T10:00:00Z") == datetime(2026, 5, 1, 10, tzinfo=UTC)
    for wrong in ("soon", "+12345-01-01"):
        with pytest.raises(ArgumentError, match="valid timestamp"):
            session_time(session, wrong)


@pytest.mark.long
def test_a_table_that_spark_created_without_a_path_says_what_does(spark):
    name = f"pathless_{next(_NUMBERS)}"
    lds.register(spark)
    spark.sql(f"CREATE TABLE {name} (id bigint) USING lazydelta")
    with pytest.raises(PySparkException, match=r"create the name by lazydelta\.spark\.sql"):
        spark.sql(f"SELECT * FROM {name}").collect()
    spark.sql(f"DROP TABLE {name}")
