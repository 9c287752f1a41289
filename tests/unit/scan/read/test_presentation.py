"""Output schema and encoding."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta import ReadOptions
from lazydelta.errors import ConfigError, SchemaError
from tests.unit.scan.read.tables import Rows, field

FIELDS = [
    field("id", "long"),
    field("name", "string"),
    field("part", "string"),
    field("n", "integer"),
]


@pytest.fixture
def scan(tmp_path):
    made = Rows(tmp_path / "t", FIELDS, partition_columns=["part", "n"])
    for at, (part, number) in enumerate([("a", "1"), ("b", "2"), (None, None)]):
        rows = pa.table({"id": [10 * at, 10 * at + 1], "name": ["x", None]})
        made.file(f"{at}.parquet", rows, partition={"part": part, "n": number})
    return made.open().scan


def by_id(rows):
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


def test_the_default_is_the_table_schema(scan):
    kinds = scan().to_arrow().schema.types
    assert kinds == [pa.int64(), pa.string(), pa.string(), pa.int32()]


def test_string_partition_columns_as_dictionaries(scan):
    options = ReadOptions(wrap_partition_values=True, file_column_name="file")
    found = scan().to_arrow(options)
    wrapped = pa.dictionary(pa.uint16(), pa.string())
    assert found.schema.types == [pa.int64(), pa.string(), wrapped, pa.int32(), wrapped]
    plain = ReadOptions(file_column_name="file")
    assert by_id(found) == by_id(scan().to_arrow(plain))


def test_strings_and_binary_as_views(scan):
    found = scan().to_arrow(ReadOptions(schema_force_view_types=True))
    assert found.schema.types == [pa.int64(), pa.string_view(), pa.string_view(), pa.int32()]
    assert by_id(found) == by_id(scan().to_arrow())


def test_a_schema_selects_columns_order_and_types(scan):
    wanted = pa.schema(
        [("n", pa.int64()), ("later", pa.struct([("x", pa.int8())])), ("name", pa.large_string()),
         ("id", pa.int64())],
        metadata={"k": "v"},
    )  # fmt: skip
    found = scan(options=ReadOptions(schema=wanted)).to_arrow()
    assert found.schema.equals(wanted, check_metadata=True)
    assert by_id(found)[:2] == [
        {"n": 1, "later": None, "name": "x", "id": 0},
        {"n": 1, "later": None, "name": None, "id": 1},
    ]


def test_an_empty_schema_counts_rows(scan):
    found = scan().to_arrow(ReadOptions(schema=pa.schema([("later", pa.int8())])))
    assert found.to_pylist() == [{"later": None}] * 6


def test_columns_select_from_the_schema(scan):
    wanted = pa.schema([("id", pa.int64()), ("name", pa.string()), ("later", pa.int8())])
    options = ReadOptions(schema=wanted)
    assert scan(columns=["name"]).to_arrow(options).schema.names == ["name", "later"]
    with pytest.raises(ConfigError, match="no column 'part'"):
        scan(columns=["part"]).to_arrow(options)
    with pytest.raises(ConfigError, match="no column 'file'"):
        scan().to_arrow(ReadOptions(schema=wanted, file_column_name="file"))


def test_predicates_apply_to_table_types(scan):
    wanted = ReadOptions(schema=pa.schema([("id", pa.decimal128(20, 0))]))
    found = scan(where="part = 'b' and name = 'x' and id < 100").to_arrow(wanted)
    assert [int(row["id"]) for row in found.to_pylist()] == [10]


def test_encodings_of_the_output_schema(scan):
    wanted = pa.schema(
        [
            ("part", pa.dictionary(pa.int8(), pa.string())),
            ("name", pa.string_view()),
            ("id", pa.int64()),
        ]
    )
    found = scan().to_arrow(ReadOptions(schema=wanted))
    assert found.schema == wanted
    assert by_id(found) == by_id(scan(columns=["part", "name", "id"]).to_arrow())


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        pytest.param(pa.field("id", pa.int32()), "'id' is int64", id="narrower"),
        pytest.param(pa.field("name", pa.int64()), "'name' is string", id="another-type"),
        pytest.param(pa.field("id", pa.int64(), nullable=False), "is nullable", id="not-null"),
        pytest.param(
            pa.field("later", pa.int8(), nullable=False), "'later'", id="missing-not-null"
        ),
    ],
)
def test_an_incompatible_output_schema(scan, column, reason):
    with pytest.raises(SchemaError, match=reason):
        scan().to_reader(ReadOptions(schema=pa.schema([column])))


def test_a_timestamp_outside_the_range_of_its_unit(tmp_path):
    made = Rows(tmp_path / "t", [field("at", "timestamp_ntz")], features=("timestampNtz",))
    made.file("a.parquet", pa.table({"at": pa.array([2**62], pa.timestamp("us"))}))
    wanted = pa.schema([("at", pa.timestamp("ns"))])
    with pytest.raises(SchemaError, match="would result in out of bounds"):
        made.open().scan().to_arrow(ReadOptions(schema=wanted))


def test_more_values_than_dictionary_indices(tmp_path):
    made = Rows(tmp_path / "t", [field("name", "string")])
    made.file("a.parquet", pa.table({"name": [str(i) for i in range(200)]}))
    wanted = pa.schema([("name", pa.dictionary(pa.int8(), pa.string()))])
    with pytest.raises(SchemaError, match="not in range"):
        made.open().scan().to_arrow(ReadOptions(schema=wanted))


def test_a_schema_with_a_name_twice_is_refused():
    with pytest.raises(ConfigError, match="'x' more than once"):
        ReadOptions(schema=pa.schema([("x", pa.int8()), ("x", pa.int8())]))


def test_row_indexes_are_positions_in_the_file(scan):
    options = ReadOptions(row_index_column="row", file_column_name="file")
    assert [row["row"] for row in by_id(scan().to_arrow(options))] == [0, 1] * 3
    filtered = scan(where="id % 10 = 1").to_arrow(options)
    assert filtered["row"].to_pylist() == [1, 1, 1]
    with pytest.raises(ConfigError, match="row_index_column"):
        scan().to_arrow(ReadOptions(row_index_column="id"))
