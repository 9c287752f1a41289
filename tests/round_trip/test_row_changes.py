"""Other engines read the rows that our DELETE and UPDATE leave, and change rows in turn."""

from __future__ import annotations

import deltalake
import polars as pl
import pyarrow as pa
import pytest

import lazydelta as ld
from tests.round_trip.spark_row_changes import STEPS, TABLES
from tests.spark.reference import run_program


def by_deltalake(path):
    table = deltalake.DeltaTable(path)
    return pa.table(deltalake.QueryBuilder().register("t", table).execute("select * from t"))


def by_polars(path):
    return pl.scan_delta(path).collect().to_arrow()


@pytest.mark.parametrize("read", [by_deltalake, by_polars])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_other_engines_read_changed_rows(tmp_path, vectors, read):
    path = str(tmp_path)
    rows = {"id": list(range(5000)), "v": [float(n) for n in range(5000)]}
    ld.write(path, rows, properties={"delta.enableDeletionVectors": vectors})
    table = ld.Table.open(path)
    table.delete("id % 7 = 0")
    table.delete("id % 11 = 0")  # extends the vector
    table.update({"v": "v + 0.5"}, "id % 13 = 0")
    expected = {n: n + 0.5 if n % 13 == 0 else float(n) for n in range(5000) if n % 7 and n % 11}
    found = read(path).to_pydict()
    assert dict(zip(found["id"], found["v"], strict=True)) == expected
    assert len(found["id"]) == len(expected)


def changed_in_turn(place, names):
    found = run_program("tests.round_trip.spark_row_changes", place, *names)
    assert set(found) == set(names)
    for name, result in found.items():
        assert result["problem"] is None, f"{name}: {result['problem']}"
        assert result["held"] > len(STEPS)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_delta_spark_and_we_change_rows_of_all_kinds_of_tables_in_turn(tmp_path):
    changed_in_turn(tmp_path, list(TABLES))
