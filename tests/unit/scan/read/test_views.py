"""Files with string views, as deltalake writes them when it deletes rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import lazydelta as ld

ROWS = pa.table(
    {
        "id": range(100),
        "few": [f"f{n % 3}" for n in range(100)],
        "many": [None if n % 7 == 0 else f"m{n}" for n in range(100)],
        "raw": [b"%d" % n for n in range(100)],
        "s": [{"t": f"s{n}", "n": n} for n in range(100)],
        "l": [[f"l{n}", None] for n in range(100)],
        "m": pa.array(
            [[(f"k{n}", f"v{n}")] for n in range(100)], pa.map_(pa.string(), pa.string())
        ),
    }
)


@pytest.fixture
def table(tmp_path):
    write_deltalake(tmp_path, ROWS)
    DeltaTable(tmp_path).delete("id = 3")
    rewritten = DeltaTable(tmp_path).file_uris()[0]
    if int(pa.__version__.split(".")[0]) < 21:
        pytest.skip("this pyarrow reads views as plain strings; a newer one runs it")
    assert pa.types.is_string_view(pq.read_schema(rewritten).field("many").type)
    return ld.Table.open(tmp_path)


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ("id in (2, 4, 50)", lambda row: row["id"] in (2, 4, 50)),
        ("id between 90 and 95", lambda row: 90 <= row["id"] <= 95),
        ("id < 98", lambda row: row["id"] < 98),
        ("few = 'f1'", lambda row: row["few"] == "f1"),
        ("many = 'm50'", lambda row: row["many"] == "m50"),
        ("many is null", lambda row: row["many"] is None),
        ("s.t = 's8'", lambda row: row["s"]["t"] == "s8"),
    ],
)
@pytest.mark.parametrize("columns", [None, ["many"], ["s", "l"], ["m", "raw", "few"]])
def test_some_rows_of_a_file_with_views(table, where, matches, columns):
    found = table.scan(where, columns=columns).to_arrow()
    expected = [row for row in ROWS.to_pylist() if row["id"] != 3 and matches(row)]
    names = columns or ROWS.column_names
    assert found.to_pylist() == [{name: row[name] for name in names} for row in expected]
    assert not any(pa.types.is_string_view(kind) for kind in found.schema.types)
