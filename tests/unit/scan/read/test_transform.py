"""Conversion of file columns to table columns, without loss of values."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lazydelta.scan.read.transform import FileSchemaError, decoded, match_columns
from lazydelta.schema import parse_schema, to_arrow_type
from tests.unit.scan.read.tables import field


def fields(*items):
    text = json.dumps({"type": "struct", "fields": list(items)})
    return parse_schema(text, where="test").fields


def shown(table, items, mode="none"):
    """Return each converted field, after validating the array."""
    wanted = fields(*items)
    fit = match_columns(table.schema, wanted, mode)
    (batch,) = table.combine_chunks().to_batches()
    found = []
    for item, source in zip(wanted, fit.sources, strict=True):
        target = to_arrow_type(item.type)
        if source is None:
            found.append(pa.nulls(batch.num_rows, target))
            continue
        array = decoded(batch.column(source.name))
        array = array if source.convert is None else source.convert(array)
        array.validate(full=True)
        assert array.type == target
        sliced = decoded(batch.column(source.name).slice(1))
        sliced = sliced if source.convert is None else source.convert(sliced)
        sliced.validate(full=True)
        assert sliced.to_pylist() == array.to_pylist()[1:]
        found.append(array)
    return [array.to_pylist() for array in found]


NAIVE = datetime(1960, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        pytest.param(pa.array([1, None], pa.int8()), "short", [1, None], id="byte-short"),
        pytest.param(pa.array([1, None], pa.int16()), "integer", [1, None], id="short-integer"),
        pytest.param(pa.array([-1, None], pa.int32()), "long", [-1, None], id="integer-long"),
        pytest.param(pa.array([1, None], pa.int32()), "byte", [1, None], id="byte-kept-as-int32"),
        pytest.param(pa.array([7, None], pa.uint32()), "long", [7, None], id="unsigned"),
        pytest.param(pa.array([2**31 - 1, 0], pa.int32()), "double", [2147483647.0, 0.0], id="integer-double"),
        pytest.param(pa.array([0.5, None], pa.float32()), "double", [0.5, None], id="float-double"),
        pytest.param(pa.array([5, None], pa.int32()), "decimal(12,2)", [Decimal("5.00"), None], id="integer-decimal"),
        pytest.param(pa.array([2**62, 0], pa.int64()), "decimal(20,0)", [Decimal(2**62), Decimal(0)], id="long-decimal"),
        pytest.param(pa.array([Decimal("1.5"), None], pa.decimal128(4, 1)), "decimal(10,3)", [Decimal("1.500"), None], id="wider-decimal"),
        pytest.param(pa.array([Decimal("1.5"), None], pa.decimal256(40, 1)), "decimal(38,1)", [Decimal("1.5"), None], id="decimal256"),
        pytest.param(pa.array([date(1960, 1, 1), None]), "timestamp_ntz", [datetime(1960, 1, 1), None], id="date-ntz"),  # noqa: DTZ001
        pytest.param(pa.array([NAIVE, None], pa.timestamp("us")), "timestamp_ntz", [NAIVE, None], id="ntz"),
        pytest.param(pa.array([-1, None], pa.timestamp("ns")), "timestamp_ntz", [datetime(1969, 12, 31, 23, 59, 59, 999999), None], id="nanoseconds-floor"),  # noqa: DTZ001
        pytest.param(pa.array([-1500, None], pa.timestamp("ms")), "timestamp_ntz", [datetime(1969, 12, 31, 23, 59, 58, 500000), None], id="milliseconds"),  # noqa: DTZ001
        pytest.param(pa.array([date(2020, 1, 1), None], pa.date64()), "date", [date(2020, 1, 1), None], id="date64"),
        pytest.param(pa.array(["é", None], pa.large_string()), "string", ["é", None], id="large-string"),
        pytest.param(pa.array(["é", None], pa.string_view()), "string", ["é", None], id="string-view"),
        pytest.param(pa.array(["é".encode(), None], pa.binary()), "string", ["é", None], id="binary-as-string"),
        pytest.param(pa.array([b"ab", None], pa.binary(2)), "binary", [b"ab", None], id="fixed-binary"),
        pytest.param(pa.array(["a", None, "a"]).dictionary_encode(), "string", ["a", None, "a"], id="dictionary"),
        pytest.param(pa.nulls(2), "long", [None, None], id="null-column"),
        pytest.param(pa.array(["a", "b"]), "void", [None, None], id="void"),
        pytest.param(pa.array(["a", "b"]), "varchar(3)", ["a", "b"], id="varchar"),
    ],
)  # fmt: skip
def test_lossless_conversions(array, kind, expected):
    assert shown(pa.table({"x": array}), [field("x", kind)]) == [expected]


def test_timestamps_are_utc():
    for unit, tz in (("us", "UTC"), ("us", None), ("us", "+05:00"), ("ms", "UTC"), ("ns", None)):
        scale = {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]
        array = pa.array([-1000 * scale, None, scale], pa.timestamp(unit, tz))
        (found,) = shown(pa.table({"x": array}), [field("x", "timestamp")])
        assert [None if v is None else v.timestamp() for v in found] == [-1.0, None, 0.001]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        pytest.param(pa.array(["1"]), "long", id="string-to-number"),
        pytest.param(pa.array([1]), "string", id="number-to-string"),
        pytest.param(pa.array([1.0]), "long", id="float-to-integer"),
        pytest.param(pa.array([1.0]), "float", id="double-to-float"),
        pytest.param(pa.array([1], pa.int64()), "double", id="long-to-double"),
        pytest.param(pa.array([1]), "boolean", id="number-to-boolean"),
        pytest.param(pa.array([date(2020, 1, 1)]), "timestamp", id="date-to-timestamp"),
        pytest.param(pa.array([{"a": 1}]), "long", id="struct-to-number"),
        pytest.param(pa.array([[1]]), {"type": "struct", "fields": []}, id="list-to-struct"),
    ],
)
def test_lossy_conversions_are_refused(array, kind):
    with pytest.raises(FileSchemaError, match="'x'"):
        match_columns(pa.schema([("x", array.type)]), fields(field("x", kind)), "none")


def test_an_overflow_is_an_error():
    with pytest.raises(pa.ArrowInvalid):
        shown(pa.table({"x": pa.array([300, 1], pa.int32())}), [field("x", "byte")])
    with pytest.raises(pa.ArrowInvalid):
        shown(pa.table({"x": pa.array([b"\xff", b"a"])}), [field("x", "string")])


def test_missing_columns_are_null_and_extra_columns_ignored():
    table = pa.table({"other": [1, 2], "x": [3, 4]})
    found = shown(table, [field("y", "string"), field("x", "long"), field("v", "void")])
    assert found == [[None, None], [3, 4], [None, None]]
    assert [
        s and s.columns
        for s in match_columns(table.schema, fields(field("x", "long")), "none").sources
    ] == [("x",)]


def test_exact_names_are_preferred_over_other_case():
    table = pa.table({"Name": [1, 2]})
    assert shown(table, [field("name", "long")]) == [[1, 2]]
    both = pa.table({"Name": [1, 2], "name": [3, 4]})
    assert shown(both, [field("name", "long")]) == [[3, 4]]
    with pytest.raises(FileSchemaError, match="more than one column"):
        match_columns(
            pa.schema([("AB", pa.int64()), ("Ab", pa.int64())]), fields(field("ab", "long")), "none"
        )


STRUCT = {
    "type": "struct",
    "fields": [field("a", "long"), field("new", "string"), field("b", "double")],
}


def test_structs_evolve():
    rows = [{"b": 1.5, "gone": 1, "a": 1}, None, {"b": None, "gone": 2, "a": None}]
    kind = pa.struct([("b", pa.float32()), ("gone", pa.int64()), ("a", pa.int32())])
    table = pa.table({"s": pa.array(rows, kind)})
    expected = [{"a": 1, "new": None, "b": 1.5}, None, {"a": None, "new": None, "b": None}]
    assert shown(table, [field("s", STRUCT)]) == [expected]
    (source,) = match_columns(table.schema, fields(field("s", STRUCT)), "none").sources
    assert source.columns == ("s.a", "s.b")  # what is gone is not read


def test_a_struct_with_only_new_fields_keeps_its_nulls():
    table = pa.table({"s": pa.array([{"old": 1}, None], pa.struct([("old", pa.int64())]))})
    kind = {"type": "struct", "fields": [field("new", "string")]}
    assert shown(table, [field("s", kind)]) == [[{"new": None}, None]]


def array_of(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(key, value):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


LISTS = [[{"a": 1, "b": 2.0}], None, [], [None, {"a": 3, "b": None}]]
EVOLVED = [[{"a": 1, "new": None, "b": 2.0}], None, [], [None, {"a": 3, "new": None, "b": None}]]


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
def test_structs_in_lists_evolve(make):
    kind = make(pa.struct([("a", pa.int32()), ("b", pa.float32())]))
    table = pa.table({"x": pa.array(LISTS, kind)})
    assert shown(table, [field("x", array_of(STRUCT))]) == [EVOLVED]


def test_fixed_size_lists():
    table = pa.table({"x": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))})
    assert shown(table, [field("x", array_of("long"))]) == [[[1, 2], None, [3, 4]]]


def test_maps_evolve_and_may_be_lists_of_structs():
    rows = [[("k", {"a": 1, "b": 0.5})], None, [], [("x", None), ("y", {"a": 2, "b": None})]]
    inner = pa.struct([("a", pa.int32()), ("b", pa.float32())])
    expected = [
        None
        if row is None
        else [(k, v if v is None else {"a": v["a"], "new": None, "b": v["b"]}) for k, v in row]
        for row in rows
    ]
    whole = pa.array(rows, pa.map_(pa.string(), inner))
    assert shown(pa.table({"x": whole}), [field("x", map_of("string", STRUCT))]) == [expected]
    pairs = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    listed = pa.array(pairs, pa.list_(pa.struct([("key", pa.string()), ("value", inner)])))
    assert shown(pa.table({"x": listed}), [field("x", map_of("string", STRUCT))]) == [expected]


def identified(name, kind, at):
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(at)})


@pytest.mark.parametrize("mode", ["name", "id"])
def test_renamed_columns_at_every_depth(mode):
    """Two fields of the same type have swapped names, so only the mapping identifies them."""
    inner = pa.struct([identified("p1", pa.int64(), 11), identified("p2", pa.int64(), 12)])
    schema = pa.schema(
        [
            identified("c1", pa.int64(), 1),
            identified("c2", pa.int64(), 2),
            identified("c3", inner, 3),
            identified("c4", pa.list_(pa.field("element", inner)), 4),
            identified("c5", pa.map_(pa.string(), inner), 5),
        ]
    )
    row = {"p1": 1, "p2": 2}
    table = pa.table(
        [
            pa.array([v, v], f.type)
            for v, f in zip([1, 2, row, [row], [("k", row)]], schema, strict=True)
        ],
        schema=schema,
    )
    kind = {
        "type": "struct",
        "fields": [
            field("p1", "long", physical="p2", column_id=12),
            field("p2", "long", physical="p1", column_id=11),
        ],
    }
    found = shown(
        table,
        [
            field("c1", "long", physical="c2", column_id=2),
            field("c2", "long", physical="c1", column_id=1),
            field("s", kind, physical="c3", column_id=3),
            field("l", array_of(kind), physical="c4", column_id=4),
            field("m", map_of("string", kind), physical="c5", column_id=5),
            field("new", "long", physical="c9", column_id=9),
        ],
        mode,
    )
    turned = {"p1": 2, "p2": 1}
    expected = [2, 1, turned, [turned], [("k", turned)], None]
    assert [column[0] for column in found] == expected


def test_a_file_without_ids_is_refused_in_id_mode():
    wanted = fields(field("x", "long", physical="x", column_id=1))
    with pytest.raises(FileSchemaError, match="no field ids"):
        match_columns(pa.schema([("x", pa.int64())]), wanted, "id")


def test_names_are_ignored_in_id_mode():
    schema = pa.schema([identified("x", pa.int64(), 7)])
    fit = match_columns(schema, fields(field("x", "long", physical="x", column_id=1)), "id")
    assert fit.sources == (None,)


def test_equal_types_are_not_converted():
    table = pa.table(
        {"x": [1], "s": ["a"], "l": pa.array([[1]], pa.list_(pa.field("item", pa.int64())))}
    )
    fit = match_columns(
        table.schema,
        fields(field("x", "long"), field("s", "string"), field("l", array_of("long"))),
        "none",
    )
    assert [source.convert for source in fit.sources] == [None, None, None]


def test_leaf_column_paths():
    schema = pa.schema([("S", pa.struct([("A", pa.int64())])), ("l", pa.list_(pa.int64()))])
    kind = {"type": "struct", "fields": [field("a", "long")]}
    fit = match_columns(schema, fields(field("s", kind), field("l", array_of("long"))), "none")
    assert fit.leaves == {("s", "a"): "S.A", ("l",): "l"}
