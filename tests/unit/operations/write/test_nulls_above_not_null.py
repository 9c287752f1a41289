"""Null structs with NOT NULL fields are valid rows at every depth.

Other engines expect such a field as a required column, so Parquet has a value in every row.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lazydelta as ld
from lazydelta.errors import ConstraintViolationError

KINDS = {
    "boolean": (pa.bool_(), True),
    "byte": (pa.int8(), 1),
    "double": (pa.float64(), 1.5),
    "decimal": (pa.decimal128(30, 3), Decimal("1.500")),
    "string": (pa.string(), "x"),
    "binary": (pa.binary(), b"x"),
    "date": (pa.date32(), dt.date(2026, 1, 31)),
    "timestamp": (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 31, tzinfo=dt.UTC)),
    "list": (pa.list_(pa.int32()), [1]),
    "map": (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
    "struct": (pa.struct([pa.field("q", pa.int16(), nullable=False)]), {"q": 1}),
    "struct-in-list": (
        pa.list_(pa.struct([pa.field("q", pa.int16(), nullable=False)])),
        [None, {"q": 1}],
    ),
    "struct-in-map": (
        pa.map_(pa.string(), pa.struct([pa.field("q", pa.string(), nullable=False)])),
        [("a", None), ("b", {"q": "x"})],
    ),
}


def with_nulls(kind):
    """Return the type with every field nullable, as rows that are not typed by the table."""
    if pa.types.is_struct(kind):
        return pa.struct([(part.name, with_nulls(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, with_nulls(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(with_nulls(kind.value_type))
    return kind


@pytest.mark.parametrize("mode", ["none", "id"])
@pytest.mark.parametrize("name", KINDS)
def test_null_structs_round_trip_in_both_engines(tmp_path, name, mode):
    kind, value = KINDS[name]
    struct = pa.struct([pa.field("v", kind, nullable=False)])
    columns = pa.schema({"s": struct, "l": pa.list_(struct)})
    table = ld.Table.create(tmp_path, columns, properties={"delta.columnMapping.mode": mode})
    there = {"v": value}
    rows = pa.table(
        {
            "s": pa.array([there, None, there, None], with_nulls(struct)),
            "l": pa.array([[None], [there, None], None, []], with_nulls(columns[1].type)),
        }
    ).slice(1)
    table.write(rows, options=ld.WriteOptions(row_group_rows=2))
    assert table.to_arrow().to_pylist() == rows.to_pylist()
    if mode == "none":
        assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == rows.to_pylist()
    again = (
        table.to_arrow()
    )  # in the table's own types, with placeholders or nulls below null structs
    table.write(again, "overwrite")
    assert table.to_arrow().to_pylist() == rows.to_pylist()


def test_placeholders_are_not_in_statistics(tmp_path):
    table = ld.Table.create(tmp_path, "s struct<n: bigint not null, f: double not null>")
    table.write({"s": pa.array([None, {"n": 7, "f": 2.5}])})
    lines = (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    add = next(action["add"] for line in lines if (action := json.loads(line)).get("add"))
    assert json.loads(add["stats"]) == {
        "numRecords": 2,
        "minValues": {"s": {"n": 7, "f": 2.5}},
        "maxValues": {"s": {"n": 7, "f": 2.5}},
        "nullCount": {"s": {"n": 1, "f": 1}},
    }


def test_the_column_is_required_in_the_file(tmp_path):
    ld.Table.create(tmp_path, "s struct<n: bigint not null>").write(
        {"s": pa.array([None, {"n": 1}])}
    )
    (file,) = tmp_path.glob("*.parquet")
    assert not pq.read_schema(file).field("s").type.field("n").nullable


def test_a_null_in_a_non_null_struct_is_refused(tmp_path):
    table = ld.Table.create(tmp_path, "s struct<n: bigint not null>")
    with pytest.raises(ConstraintViolationError, match=r"'s\.n' is NOT NULL"):
        table.write({"s": pa.array([None, {"n": None}], pa.struct([("n", pa.int64())]))})
    assert table.version == 0
