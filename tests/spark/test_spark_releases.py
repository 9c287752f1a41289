"""What `spark_releases` makes alike, on the installed PySpark: `make test-spark35` and so on."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PythonException

import lazydelta as ld
import lazydelta.spark as lds
from lazydelta.errors import ConfigError, UnsupportedOperationError
from lazydelta.spark import spark_releases
from lazydelta.spark.spark_releases import collect_arrow, frame_of_arrow, rebalance


@pytest.fixture
def url(tmp_path):
    ld.write(tmp_path / "t", {"id": [1, 2, 3], "v": ["a", "b", "c"]})
    return str(tmp_path / "t")


def test_rows_without_columns_are_counted(spark, url):
    for way in ("native", "arrow"):
        assert len(lds.read(spark, url, columns=[], path=way).collect()) == 3


def test_arrow_rows_become_a_frame_and_come_back(spark):
    rows = pa.table({"id": [1, None, 3], "t": [[{"x": "é"}], [], None]})
    frame = frame_of_arrow(spark, rows, "id bigint, t array<struct<x: string>>")
    found = collect_arrow(frame)
    assert found.to_pylist() == rows.to_pylist()
    assert collect_arrow(frame.where("id > 3")).column_names == ["id", "t"]


def test_partitions_are_balanced_by_columns_of_any_name(spark):
    frame = spark.range(8).selectExpr("id", "id % 2 AS `a {b}``c`")
    spread = rebalance(frame, ["`a {b}``c`"])
    assert sorted(spread.collect()) == sorted(frame.collect())
    assert "REBALANCE" in spread._jdf.queryExecution().toString().upper()


def test_tasks_of_a_local_session_do_not_use_tcp(spark):
    if pyspark.__version__ < "4.1" or not hasattr(socket, "AF_UNIX"):
        pytest.skip("needs PySpark 4.1 and Unix domain sockets")

    def probe(batches):
        for _ in batches:
            enabled = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower()
            yield pa.record_batch([[enabled]], ["enabled"])

    rows = spark.range(1).mapInArrow(probe, "enabled string").collect()
    assert [row["enabled"] for row in rows] == ["true"]


def test_a_typed_error_of_an_executor_is_one_line(spark, url):
    (file,) = ld.Table.open(url).scan().files()
    damaged = lds.read(spark, url, path="arrow")
    Path(url, file.path).unlink()
    with pytest.raises(PythonException, match="DataFileNotFoundError: ") as caught:
        damaged.collect()
    assert ", line " not in str(caught.value)


def test_statements_take_paths(spark, url):
    table = f"delta.`{url}`"
    lds.sql(spark, f"MERGE INTO {table} t USING (SELECT 3L AS id, 'z' AS v) s ON t.id = s.id "
                   "WHEN MATCHED THEN UPDATE SET *")  # fmt: skip
    lds.sql(spark, f"DELETE FROM {table} WHERE id = 1")
    rows = lds.sql(spark, f"SELECT id, v FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(2, "b"), (3, "z")]
    assert lds.DeltaTable.forPath(spark, url).history(1).collect()[0]["operation"] == "DELETE"


def test_changes_of_rows_need_ansi_mode(spark, url):
    session = spark.newSession()
    session.conf.unset("spark.sql.ansi.enabled")
    if spark_releases.IS_SPARK_4:  # ANSI mode is the default from Spark 4.0 on
        session.conf.set("spark.sql.ansi.enabled", "false")
    with pytest.raises(ConfigError, match="ansi"):
        lds.delete(session, url, "id = 1")


def test_names_are_refused_where_spark_has_no_formats(spark, url, tmp_path, monkeypatch):
    monkeypatch.setattr(spark_releases, "IS_SPARK_4", False)
    place = tmp_path / "new"
    for work in (
        lambda: lds.attach(spark, {"numbers": url}),
        lambda: lds.register(spark),
        lambda: lds.sql(spark, f"CREATE TABLE n (id BIGINT) USING delta LOCATION '{place}'"),
        lds.DeltaTable.create(spark).tableName("n").addColumn("id", "long").location(str(place)).execute,
    ):  # fmt: skip
        with pytest.raises(UnsupportedOperationError, match=r"on PySpark \d.* \(or PySpark 4\)"):
            work()
    assert not place.exists()
