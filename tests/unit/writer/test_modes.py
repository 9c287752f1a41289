"""Schema, properties and protocol after a write, in each schema mode."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lazydelta.errors import SchemaError, SchemaMismatchError, UnsupportedFeatureError
from lazydelta.protocol import TableProtocol
from lazydelta.schema import parse_schema, schema_to_json
from lazydelta.schema.mapping import assign_column_ids
from tests.unit.writer.support import OLD, batch, planned, schema_of, with_metadata

BASE = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int32())]))])
MORE = pa.schema(
    [
        ("new", pa.string()),
        ("s", pa.struct([("y", pa.list_(pa.int8())), ("x", pa.int32())])),
        ("id", pa.int64()),
    ]
)
MAPPED = TableProtocol(min_reader_version=2, min_writer_version=5)


def mapped(columns):
    schema, last = assign_column_ids(schema_of(columns), last_id=0, keep_names=False)
    return schema, {
        "delta__columnMapping__mode": "name",
        "delta__columnMapping__maxColumnId": f"{last}",
    }


def ids(kind):
    return [f.metadata["delta.columnMapping.id"] for f in kind]


@pytest.mark.parametrize("mode", [None, "merge", "overwrite"])
def test_rows_of_the_tables_own_schema_change_nothing(mode):
    schema = schema_of(BASE)
    enforcement = planned(schema, BASE, schema_mode=mode)
    assert enforcement.schema is schema
    assert enforcement.protocol is OLD
    assert enforcement.metadata.schema_string == schema_to_json(schema)
    mapped_schema, properties = mapped(BASE)
    enforcement = planned(mapped_schema, BASE, schema_mode=mode, protocol=MAPPED, **properties)
    assert enforcement.schema is mapped_schema


def test_merging_adds_columns_and_nested_fields():
    enforcement = planned(BASE, MORE, schema_mode="merge")
    assert str(enforcement.schema) == (
        "struct<id: long, s: struct<x: integer, y: array<byte>>, new: string>"
    )
    assert parse_schema(enforcement.metadata.schema_string, where="") == enforcement.schema
    rows = batch(MORE, ("a", {"y": [1], "x": 2}, 3))
    assert pickle.loads(pickle.dumps(enforcement))(rows).to_pylist() == [
        {"id": 3, "s": {"x": 2, "y": [1]}, "new": "a"}
    ]


def test_merging_accepts_rows_that_lack_columns():
    enforcement = planned(BASE, pa.schema([("new", pa.int8())]), schema_mode="merge")
    assert enforcement(batch([("new", pa.int8())], (1,))).to_pylist() == [
        {"id": None, "s": None, "new": 1}
    ]


def test_merging_does_not_change_a_type():
    with pytest.raises(
        SchemaMismatchError, match="column 'id': the table has long, the rows have string"
    ) as e:
        planned(BASE, pa.schema([("id", pa.string()), ("new", pa.int8())]), schema_mode="merge")
    assert "does not change types" in str(e.value)
    assert len(e.value.differences) == 1


WIDENING = TableProtocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("typeWidening",),
    writer_features=("typeWidening",),
)


def test_merging_widens_where_the_table_allows_it():
    given = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.float64()))])
    on = {"delta__enableTypeWidening": "true"}
    enforcement = planned(
        "a int, l array<float>", given, schema_mode="merge", protocol=WIDENING, **on
    )
    assert str(enforcement.schema) == "struct<a: long, l: array<double>>"
    changes = [part.metadata["delta.typeChanges"] for part in enforcement.schema]
    assert changes == [
        [{"fromType": "integer", "toType": "long"}],
        [{"fromType": "float", "toType": "double", "fieldPath": "element"}],
    ]
    assert enforcement(batch(given, (2**40, [0.1]))).to_pylist() == [{"a": 2**40, "l": [0.1]}]
    with pytest.raises(SchemaMismatchError, match="float, the rows have double"):
        planned("a int, l array<float>", given, schema_mode="merge", protocol=WIDENING)
    with pytest.raises(SchemaMismatchError, match="float, the rows have double"):
        planned("a int, l array<float>", given, schema_mode="merge", **on)


def test_a_date_partition_column_is_not_widened():
    on = {"delta__enableTypeWidening": "true"}
    given = pa.schema([("p", pa.timestamp("us")), ("d", pa.timestamp("us"))])
    with pytest.raises(SchemaMismatchError, match=r"'p': the table has date") as refused:
        planned("p date, d date", given, schema_mode="merge", protocol=WIDENING,
                partition_columns=("p",), **on)  # fmt: skip
    assert "'d'" not in str(refused.value)


def test_a_column_of_a_constraint_is_not_widened():
    on = {"delta__enableTypeWidening": "true", "delta__constraints__known": "a > 0"}
    given = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    with pytest.raises(SchemaMismatchError, match=r"column 'a' would be widened.*'known'"):
        planned("a int, b int", given, schema_mode="merge", protocol=WIDENING, **on)
    narrow = given.set(0, pa.field("a", pa.int32()))
    enforcement = planned("a int, b int", narrow, schema_mode="merge", protocol=WIDENING, **on)
    assert str(enforcement.schema) == "struct<a: integer, b: long>"


def test_a_clustered_table_keeps_its_schema():
    clustered = TableProtocol(
        min_reader_version=1, min_writer_version=7, writer_features=("clustering", "domainMetadata")
    )
    given = pa.schema([("a", pa.int64())])
    with pytest.raises(UnsupportedFeatureError, match="clustering"):
        planned("a int, b int", given, schema_mode="overwrite", protocol=clustered)
    same = planned("a bigint", given, schema_mode="overwrite", protocol=clustered)
    assert same.protocol is clustered


def test_new_columns_get_new_ids_and_names_of_their_own():
    schema, properties = mapped(BASE)
    enforcement = planned(schema, MORE, schema_mode="merge", protocol=MAPPED, **properties)
    assert ids(enforcement.schema) == [1, 2, 5]
    assert ids(enforcement.schema.fields[1].type) == [3, 4]
    assert enforcement.metadata.configuration["delta.columnMapping.maxColumnId"] == "5"
    physical = "delta.columnMapping.physicalName"
    assert enforcement.schema.fields[0].metadata[physical] == schema.fields[0].metadata[physical]
    assert enforcement.schema.fields[2].metadata[physical].startswith("col-")


def test_new_types_add_their_table_features():
    ntz = pa.schema([("id", pa.int64()), ("wall", pa.timestamp("us"))])
    enforcement = planned("id bigint", ntz, schema_mode="merge")
    assert enforcement.protocol.min_writer_version == 7
    assert enforcement.protocol.reader_features == ("timestampNtz",)
    assert {"timestampNtz", "appendOnly", "invariants"} == set(enforcement.protocol.writer_features)


def test_a_new_type_whose_feature_cannot_be_written_is_refused():
    variant = pa.struct(
        [pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")]
    )
    given = pa.schema([("v", pa.list_(variant))])
    with pytest.raises(UnsupportedFeatureError, match="variantType"):
        planned("id bigint", given, schema_mode="merge")


def test_a_name_that_files_cannot_have_needs_column_mapping():
    odd = pa.schema([("id", pa.int64()), ("the day", pa.int8())])
    with pytest.raises(SchemaError, match="column mapping"):
        planned("id bigint", odd, schema_mode="merge")
    schema, properties = mapped("id bigint")
    enforcement = planned(schema, odd, schema_mode="merge", protocol=MAPPED, **properties)
    assert enforcement.schema.names == ("id", "the day")


def test_overwriting_replaces_the_schema():
    schema = with_metadata(
        schema_of("id bigint, gone int, n int not null"), "n", {"comment": "why"}
    )
    given = pa.schema([("n", pa.string()), ("id", pa.int64()), ("more", pa.int8())])
    enforcement = planned(schema, given, schema_mode="overwrite")
    assert str(enforcement.schema) == "struct<n: string not null, id: long, more: byte>"
    assert enforcement.schema.fields[0].metadata == {"comment": "why"}
    rows = batch(given, ("a", 1, 2))
    assert enforcement(rows).to_pylist() == rows.to_pylist()


def test_overwriting_gives_every_column_a_new_id():
    schema, properties = mapped("a int, b struct<c: int>")
    given = pa.schema([("a", pa.int32()), ("d", pa.int8())])
    enforcement = planned(schema, given, schema_mode="overwrite", protocol=MAPPED, **properties)
    assert ids(enforcement.schema) == [4, 5]
    assert enforcement.metadata.configuration["delta.columnMapping.maxColumnId"] == "5"


def test_overwriting_keeps_partition_columns_and_constraints():
    given = pa.schema([("id", pa.int64())])
    with pytest.raises(SchemaMismatchError, match=r"column 'day': missing.*partitioned by it"):
        planned("id bigint, day date", given, schema_mode="overwrite", partition_columns=("day",))
    with pytest.raises(SchemaMismatchError, match=r"'known' \(n > 0\) needs column 'n'"):
        planned(
            "id bigint, n int", given, schema_mode="overwrite", delta__constraints__known="n > 0"
        )
    rule = {"delta.generationExpression": "n * 2"}
    twice = with_metadata("id bigint, n int, twice int", "twice", rule)
    two = given.append(pa.field("twice", pa.int32()))
    with pytest.raises(SchemaMismatchError, match="generated column 'twice'"):
        planned(twice, two, schema_mode="overwrite")
    assert planned(twice, given, schema_mode="overwrite").schema.names == ("id",)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (pa.list_(pa.null()), "'v.element' is void"),
        (pa.map_(pa.string(), pa.null()), "'v.value' is void"),
        (pa.struct([("a", pa.null())]), "all fields of column 'v' are void"),
        (pa.struct([]), "all fields of column 'v' are void"),
        (pa.list_(pa.struct([("a", pa.list_(pa.null()))])), "'v.element.a.element'"),
    ],
)
def test_a_nested_void_column_is_refused(kind, reason):
    with pytest.raises(SchemaError) as refused:
        planned("id bigint", pa.schema([("v", kind)]), schema_mode="merge")
    assert reason in str(refused.value)


def test_a_void_column_accepts_nulls_and_later_gets_a_type():
    nothing = pa.schema([("id", pa.int64()), ("v", pa.null())])
    enforcement = planned("id bigint", nothing, schema_mode="merge")
    assert str(enforcement.schema) == "struct<id: long, v: void>"
    assert enforcement(batch(nothing, (1, None))).to_pylist() == [{"id": 1, "v": None}]
    typed = pa.schema([("id", pa.int64()), ("v", pa.int32())])
    with pytest.raises(SchemaMismatchError, match="the table has void, the rows have int32"):
        planned(enforcement.schema, typed)
    assert (
        str(planned(enforcement.schema, typed, schema_mode="merge").schema.fields[1].type)
        == "integer"
    )
    with pytest.raises(SchemaError, match="all columns are void"):
        planned("v void", pa.schema([("v", pa.null())]))
