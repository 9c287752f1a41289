"""Schema enforcement: columns match by name, and are cast losslessly or refused."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lazydelta.errors import SchemaError, SchemaMismatchError
from lazydelta.schema import PrimitiveType
from lazydelta.writer.enforcement.schema_enforcement import cast_values
from tests.unit.writer.support import batch, planned

D = Decimal
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
# table type, Arrow type, values given, values taken (None: refused for its type, "!": its values)
CASTS = [
    ("bigint", pa.int8(), [1, None], [1, None]),
    ("int", pa.int64(), [2**31 - 1, None], [2**31 - 1, None]),
    ("int", pa.int64(), [2**31], "!"),
    ("smallint", pa.uint16(), [7], [7]),
    ("smallint", pa.uint16(), [2**15], "!"),
    ("bigint", pa.uint64(), [2**63], "!"),
    ("int", pa.float64(), [1.0], None),
    ("int", pa.string(), ["1"], None),
    ("int", pa.bool_(), [True], None),
    ("int", pa.decimal128(5, 0), [D(1)], None),
    ("double", pa.int32(), [7], [7.0]),
    ("double", pa.int64(), [2**53], [2.0**53]),
    ("double", pa.int64(), [2**53 + 1], "!"),
    ("float", pa.int32(), [2**24 + 1], "!"),
    ("double", pa.float32(), [0.5], [0.5]),
    ("float", pa.float16(), [0.5], [0.5]),
    ("float", pa.float64(), [0.5], None),
    ("decimal(10,2)", pa.decimal128(12, 3), [D("1.250")], [D("1.25")]),
    ("decimal(10,2)", pa.decimal128(12, 3), [D("1.255")], "!"),
    ("decimal(4,2)", pa.decimal128(12, 1), [D("123.0")], "!"),
    ("decimal(10,2)", pa.int32(), [7], [D("7.00")]),
    ("decimal(3,2)", pa.int64(), [70], "!"),
    ("decimal(20,0)", pa.uint64(), [2**64 - 1], [D(2**64 - 1)]),
    ("decimal(10,2)", pa.float64(), [1.25], None),
    ("string", pa.large_string(), ["a"], ["a"]),
    ("string", pa.string_view(), ["a", None], ["a", None]),
    ("string", pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"], ["a", None, "a"]),
    ("string", pa.int32(), [1], None),
    ("string", pa.binary(), [b"a"], None),
    ("binary", pa.binary(2), [b"ab"], [b"ab"]),
    ("binary", pa.large_binary(), [b"ab"], [b"ab"]),
    ("binary", pa.binary_view(), [b"ab"], [b"ab"]),
    ("binary", pa.string(), ["a"], None),
    ("boolean", pa.bool_(), [True], [True]),
    ("boolean", pa.int8(), [1], None),
    ("date", pa.date64(), [date(2026, 1, 1)], [date(2026, 1, 1)]),
    ("date", pa.timestamp("s"), [datetime(2026, 1, 1)], None),  # noqa: DTZ001
    ("date", pa.string(), ["2026-01-01"], None),
    ("timestamp", pa.timestamp("s", "UTC"), [NOON], [NOON]),
    ("timestamp", pa.timestamp("ns", "Asia/Tokyo"), [NOON], [NOON]),
    ("timestamp", pa.timestamp("us"), [NOON.replace(tzinfo=None)], None),
    ("timestamp_ntz", pa.timestamp("ms"), [NOON.replace(tzinfo=None)], [NOON.replace(tzinfo=None)]),
    ("timestamp_ntz", pa.timestamp("us", "UTC"), [NOON], None),
    ("int", pa.null(), [None], [None]),
    ("array<int>", pa.null(), [None], [None]),
    ("array<int>", pa.large_list(pa.int64()), [[1, None], None, []], [[1, None], None, []]),
    ("array<int>", pa.list_(pa.int8(), 2), [[1, 2], None, [3, 4]], [[1, 2], None, [3, 4]]),
    ("array<int>", pa.list_view(pa.int32()), [[1], None], [[1], None]),
    ("array<int>", pa.list_(pa.string()), [["1"]], None),
    ("array<int>", pa.list_(pa.int64()), [[2**40]], "!"),
    ("array<int>", pa.int32(), [1], None),
    ("struct<a: int, b: string>", pa.struct([("B", pa.large_string())]), [{"B": "x"}, None],
     [{"a": None, "b": "x"}, None]),
    ("struct<a: int>", pa.struct([("a", pa.int64()), ("c", pa.int8())]), [{"a": 1, "c": 2}], None),
    ("struct<a: int not null>", pa.struct([("c", pa.int8())]), [], None),
    ("map<string, bigint>", pa.map_(pa.large_string(), pa.int8()), [[("k", 1)], None, []],
     [[("k", 1)], None, []]),
    ("map<string, int>", pa.map_(pa.string(), pa.string()), [], None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "source", "values", "expected"), CASTS, ids=[f"{k}-{a}-{v}" for k, a, v, _ in CASTS]
)
def test_a_value_is_cast_losslessly_or_refused(target, source, values, expected):
    rows = batch([("c", source)], *[(value,) for value in values])
    if expected is None:
        with pytest.raises(SchemaMismatchError, match="'c"):
            planned(f"c {target}", rows.schema)
        return
    enforcement = pickle.loads(pickle.dumps(planned(f"c {target}", rows.schema)))
    if expected == "!":
        with pytest.raises(SchemaMismatchError, match="column 'c': the table has") as refused:
            enforcement(rows)
        assert "Cast the column first" in str(refused.value)
        return
    for start in range(len(values) + 1):  # slices share memory with what is before them
        found = enforcement(rows.slice(start))
        found.validate(full=True)
        assert found.schema == enforcement.arrow_schema
        assert found.column(0).to_pylist() == expected[start:]


def test_nanosecond_timestamps_must_be_whole_microseconds():
    enforcement = planned("c timestamp", pa.schema([("c", pa.timestamp("ns", "UTC"))]))
    kind = pa.timestamp("ns", "UTC")
    assert enforcement(pa.record_batch([pa.array([1000], kind)], ["c"])).column(0).cast("int64")[0]
    with pytest.raises(SchemaMismatchError, match="lose data"):
        enforcement(pa.record_batch([pa.array([1001], kind)], ["c"]))


def test_a_date_with_a_time_of_day_is_refused():
    enforcement = planned("c date", pa.schema([("c", pa.date64())]))
    broken = pa.Array.from_buffers(pa.date64(), 1, [None, pa.array([86_400_001]).buffers()[1]])
    with pytest.raises(SchemaMismatchError, match="lose data"):
        enforcement(pa.record_batch([broken], ["c"]))


def test_values_under_a_null_are_ignored():
    """The child of a null struct may hold anything; it must not keep the row out."""
    child = pa.array([1, 2**40], pa.int64())
    struct = pa.StructArray.from_arrays([child], ["a"], mask=pa.array([False, True]))
    enforcement = planned("c struct<a: int>", pa.schema([("c", struct.type)]))
    assert enforcement(pa.record_batch([struct], ["c"])).column(0).to_pylist() == [{"a": 1}, None]


def test_columns_are_matched_by_name_and_missing_ones_are_null():
    given = batch([("c", pa.int8()), ("A", pa.int8())], (3, 1), (4, 2))
    taken = planned("a int, b string, c bigint", given.schema)(given)
    assert taken.to_pylist() == [{"a": 1, "b": None, "c": 3}, {"a": 2, "b": None, "c": 4}]


def test_the_exact_name_wins_over_one_of_another_case():
    taken = cast_values(
        pa.array([{"A": 1, "a": 2}], pa.struct([("A", pa.int8()), ("a", pa.int8())])),
        planned("s struct<a: int>", pa.schema([("s", pa.null())])).schema.fields[0].type,
    )
    assert taken.to_pylist() == [{"a": 2}]


def test_names_that_differ_in_case_only_are_refused():
    with pytest.raises(SchemaError, match="collide"):
        planned("a int", pa.schema([("A", pa.int8()), ("a", pa.int8())]))


def test_differences_are_listed_by_column():
    incoming = pa.schema(
        [
            ("id", pa.string()),
            ("extra", pa.int8()),
            ("s", pa.struct([("x", pa.float64()), ("new", pa.int8())])),
            ("at", pa.timestamp("us")),
        ]
    )
    columns = "id bigint, need string not null, s struct<x: int, y: int not null>, at timestamp"
    with pytest.raises(SchemaMismatchError) as refused:
        planned(columns, incoming)
    assert [line.partition(" (with")[0] for line in refused.value.differences] == [
        "column 'id': the table has long, the rows have string",
        "column 'need': missing, and the column is NOT NULL",
        "column 's.x': the table has integer, the rows have double",
        "column 's.y': missing, and the column is NOT NULL",
        "column 's.new': not in the table, the rows have int8",
        "column 'at': the table has timestamp, the rows have timestamp[us]",
        "column 'extra': not in the table, the rows have int8",
    ]
    assert 'schema_mode="merge"' in str(refused.value)
    assert "assume_timezone" in str(refused.value)


def test_a_variant_is_accepted_as_readers_return_it():
    parts = pa.struct([("value", pa.large_binary()), ("metadata", pa.binary())])
    rows = batch([("v", parts)], ({"metadata": b"\1", "value": b"\0"},), (None,))
    taken = planned("v variant", rows.schema)(rows)
    assert taken.column(0).to_pylist() == [{"metadata": b"\1", "value": b"\0"}, None]
    with pytest.raises(SchemaMismatchError, match="variant"):
        planned("v variant", pa.schema([("v", pa.struct([("value", pa.binary())]))]))


def test_a_batch_of_the_table_schema_is_not_copied():
    rows = batch([("a", pa.int64()), ("b", pa.string())], (1, "x"))
    taken = planned("a bigint, b string", rows.schema)(rows)
    assert taken.column(0).buffers()[1].address == rows.column(0).buffers()[1].address


def test_a_batch_of_other_columns_than_planned_is_refused():
    enforcement = planned("a bigint, b string", pa.schema([("a", pa.int64()), ("b", pa.string())]))
    with pytest.raises(SchemaMismatchError, match="expected a, b; the batch has a"):
        enforcement(batch([("a", pa.int64())], (1,)))


def test_char_types_of_old_schemas_accept_strings():
    assert cast_values(pa.array(["a"]), PrimitiveType("varchar(3)")).to_pylist() == ["a"]
