"""Tables read through Spark Connect."""

from __future__ import annotations

from tests.rows.tables import Rows, inline
from tests.spark.test_read import FIELDS, numbers

_CLIENT = """
from lazydelta.spark import explain_read
from tests.spark.read_cases import assert_same_rows

few, many = args
for path in (few, many):
    found[path] = explain_read(spark, path)["rows"]["path"]
    assert_same_rows(spark, path)
assert_same_rows(spark, few, where="id > 10 and name = 'n3'", columns=["id"])
spark.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
assert_same_rows(spark, many)
spark.conf.unset("spark.lazydelta.distributedLogReplay.fileThreshold")
"""


def test_rows_through_connect(connect, tmp_path):
    few = Rows(tmp_path / "few", FIELDS, features=("deletionVectors",))
    few.file("a b.parquet", numbers(0, 50)).file("b.parquet", numbers(50, 90), vector=inline([1]))
    few.open()
    many = Rows(tmp_path / "many", FIELDS)
    for at in range(33):
        many.file(f"{at}.parquet", numbers(at, at + 1))
    many.open()
    found = connect.run(_CLIENT, few.path, many.path)
    assert found[str(few.path)] == "native and arrow"
    assert found[str(many.path)] == "arrow"
