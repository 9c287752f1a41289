"""Table functions in SQL."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lazydelta as ld
import lazydelta.spark as lds
from lazydelta.errors import ArgumentError
from lazydelta.spark import tuning
from lazydelta.spark.table_functions import _Changes, register_functions

pytestmark = pytest.mark.spark4


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("functions") / "t")
    properties = {"delta.enableChangeDataFeed": "true"}
    kind = pa.map_(pa.string(), pa.int64())
    rows = pa.table({"id": [1, 2], "day": ["a", "b"], "m": pa.array([[("k", 1)], None], kind)})
    ld.write(url, rows, partition_by="day", properties=properties)
    ld.Table.open(url).delete("id = 1")
    return url


@pytest.fixture
def sql(spark):
    lds.register(spark)
    return lambda statement: [tuple(row) for row in spark.sql(statement).collect()]


def test_history_and_detail(sql, url):
    found = sql(f"SELECT version, operation FROM delta_history('{url}')")
    assert found == [(1, "DELETE"), (0, "WRITE")]
    assert len(sql(f"SELECT * FROM delta_history('{url}', 1)")) == 1
    detail = sql(f"SELECT format, numFiles, partitionColumns FROM delta_detail('{url}')")
    assert detail == [("delta", 1, ["day"])]


def test_times_have_a_time_zone_in_any_session(spark, url):
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    register_functions(session, None)
    for rows in (
        session.sql(f"SELECT * FROM delta_history('{url}')"),
        lds.DeltaTable.forPath(session, url).history(),
    ):
        assert rows.schema["timestamp"].dataType.typeName() == "timestamp"


def test_files_of_a_version_and_a_condition(sql, url):
    columns = "partitionValues['day'], numRecords, hasDeletionVector"
    assert sql(f"SELECT {columns} FROM delta_files('{url}')") == [("b", 1, False)]
    assert len(sql(f"SELECT * FROM delta_files('{url}@v0')")) == 2
    assert sql(f"SELECT * FROM delta_files('{url}', \"day = 'a'\")") == []


def test_health_has_a_row_for_each_check(sql, url):
    found = sql(f"SELECT check, severity FROM delta_health('{url}')")
    expected = {(one.check, one.severity) for one in ld.Table.open(url).health().findings}
    assert set(found) == expected
    assert len(found) == len(expected)


def test_changes_have_the_columns_of_the_table(sql, url):
    found = sql(f"SELECT id, m, _change_type FROM delta_changes('{url}')")
    assert sorted(found, key=str) == [
        (1, {"k": 1}, "delete"),
        (1, {"k": 1}, "insert"),
        (2, None, "insert"),
    ]


@pytest.mark.long
def test_changes_of_a_range_of_versions(sql, url):
    assert sql(f"SELECT id FROM delta_changes('{url}', 1, 1)") == [(1,)]


def test_an_error_is_one_line(sql, url):
    with pytest.raises(PySparkException, match="TableNotFoundError: no Delta table at /nope") as e:
        sql("SELECT * FROM delta_history('/nope')")
    assert "Traceback" not in str(e.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), r"takes \(path, start, end\) and was called otherwise: missing .*'path'"),
        (("/t", 0, 1, 2), "too many positional arguments"),
        ((None,), "path must be a string, not None"),
        (("/t", "2026-05-01"), "start must be an integer, not '2026-05-01'"),
    ],
)
def test_wrong_arguments_are_a_typed_error(given, message):
    with pytest.raises(ArgumentError, match=message):
        _Changes(None).check_call(*given)


def test_a_missing_argument_is_one_line(sql):
    with pytest.raises(PySparkException, match="ArgumentError: the function takes") as e:
        sql("SELECT * FROM delta_history()")
    assert "Traceback" not in str(e.value)


def test_changes_of_many_rows_name_the_way_that_distributes(url, monkeypatch):
    monkeypatch.setattr(tuning, "FUNCTION_ROWS", 2)
    with pytest.raises(ArgumentError, match="at most 2 rows, in one task"):
        list(_Changes(None).eval(url))
