"""Reading does not import pandas, which takes longer than most reads."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa

import lazydelta as ld

PROGRAM = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise AssertionError("pandas is loaded")
sys.meta_path.insert(0, Refused())
import lazydelta as ld
table = ld.Table.open(sys.argv[1])
files = list(table.scan().files())
assert len(files) == 4, files
assert files[0].partition_values.keys() == {"The Day"}
assert table.scan("`The Day` = 'a b:2'").to_arrow().num_rows == 1
assert table.to_arrow().num_rows == 4
assert table.scan("s.x > 2").count() == 1
assert table.scan().min_max("id").max == 4
assert sum(b.num_rows for b in table.changes(starting_version=1).to_batches()) == 4
assert table.history() and table.scan().explain() and table.check()
"""


def test_no_read_imports_pandas(tmp_path):
    """With renamed columns, encoded paths, nulls within structs, and a change feed."""
    settings = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
    table = ld.Table.create(
        tmp_path / "t", "id bigint, `The Day` string, s struct<x: int, y: array<string>>",
        partition_by=["The Day"], properties=settings,
    )  # fmt: skip
    rows = pa.table(
        {
            "id": [1, 2, 3, 4],
            "The Day": [f"a b:{at}" for at in range(4)],
            "s": pa.array([{"x": 1, "y": ["q", None]}, None, {"x": None, "y": None}, {"x": 3}],
                          pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        }
    )  # fmt: skip
    table.write(rows)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "t")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
