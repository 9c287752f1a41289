"""Constraints: violations, their messages, and expressions refused before any row."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lazydelta.errors import ConstraintViolationError, SchemaMismatchError, UnsupportedFeatureError
from lazydelta.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from tests.unit.writer.support import batch, planned, with_metadata

DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
ID = pa.schema([("id", pa.int64()), ("name", pa.string())])
NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("x", pa.int32()), ("t", pa.struct([("y", pa.string())]))])),
        ("l", pa.list_(pa.struct([("k", pa.int32())]))),
        ("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
    ]
)
NESTED_TABLE = (
    "id bigint, s struct<x: int not null, t: struct<y: string not null>>, "
    "l array<struct<k: int not null>>, m map<string, array<int>>"
)


def violations(enforcement, rows):
    with pytest.raises(ConstraintViolationError) as broken:
        enforcement(rows)
    return broken.value.violations


def checked(expression, schema=ID, columns="id bigint, name string"):
    return planned(columns, schema, delta__constraints__rule=expression)


@pytest.mark.parametrize(
    ("expression", "good", "bad"),
    [
        ("id > 0", (1, "a"), (0, "a")),
        ("id > 0", (1, "a"), (None, "a")),
        ("id is null or id > 0", (None, "a"), (-1, "a")),
        ("name in ('a', 'b')", (1, "b"), (1, "c")),
        ("name in ('a', 'b')", (1, "b"), (1, None)),
        ("length(name) <= 3 and id % 2 = 0", (2, "abc"), (3, "abc")),
        ("upper(name) = 'É'", (2, "é"), (2, "e")),
        ("case when id > 10 then name is not null else true end", (1, None), (11, None)),
        ("100 / id > 1", (10, "a"), (100, "a")),
        ("100 / id > 1", (10, "a"), (0, "a")),
        ("name like 'a%' or name rlike '^b+$'", (1, "bb"), (1, "bab")),
        ("\"name\" != 'bad'", (1, "good"), (1, "bad")),  # as delta-rs quotes a column
        ('"id" >= 0', (0, "a"), (-1, "a")),
    ],
)
def test_a_check_must_be_true_and_null_is_not(expression, good, bad):
    enforcement = pickle.loads(pickle.dumps(checked(expression)))
    if good is not None:
        rows = batch(ID, good, good)
        assert enforcement(rows).to_pylist() == rows.to_pylist()
    if bad is not None:
        rows = batch(ID, *([good] if good else []), bad, bad)
        (line,) = violations(enforcement, rows)
        assert f"CHECK constraint 'rule' ({expression})" in line
        assert f"2 of {rows.num_rows} rows" in line


def test_a_violation_names_the_first_row():
    (line,) = violations(checked("id > 0"), batch(ID, (1, "a"), (-7, "b"), (-8, "c")))
    assert line == (
        "CHECK constraint 'rule' (id > 0): violated by 2 of 3 rows, the first has id=-7"
    )


def test_a_check_that_cannot_be_computed_is_violated():
    (line,) = violations(checked("id + 1 > 0"), batch(ID, (1, "a"), (2**63 - 1, "b")))
    assert "cannot be computed for 1 of 2 rows, the first has id=9223372036854775807" in line


def test_a_long_value_is_truncated():
    (line,) = violations(checked("length(name) < 5"), batch(ID, (1, "x" * 10_000)))
    assert len(line) < 300
    assert line.endswith("xxx...")


def test_all_violated_constraints_are_named_at_once():
    invariant = {"delta.invariants": '{"expression":{"expression":"name <> \'\'"}}'}
    schema = with_metadata("id bigint not null, name string", "name", invariant)
    enforcement = planned(
        schema, ID, delta__constraints__b="id < 10", delta__constraints__a="id is not null"
    )
    lines = violations(enforcement, batch(ID, (None, ""), (11, "ok")))
    assert [line.split(":")[0] for line in lines] == [
        "column 'id' is NOT NULL",
        "CHECK constraint 'a' (id is not null)",
        "CHECK constraint 'b' (id < 10)",
        "invariant of column 'name' (name <> '')",
    ]
    assert "null in 1 of 2 rows, the first has id=None, name=''" in lines[0]
    assert "violated by 2 of 2 rows" in lines[2]


@pytest.mark.parametrize(
    "expression", ["score(id) > 0", "id > ", "id +", "id", "id ? 1", "name > id"]
)
def test_an_unsupported_check_refuses_the_write(expression):
    with pytest.raises(UnsupportedFeatureError, match="checkConstraints") as refused:
        checked(expression)
    assert "'rule'" in str(refused.value)
    assert refused.value.access == "write"


@pytest.mark.parametrize("expression", ["true", "'a' = 'b'", "\"nope\" = 'a'"])
def test_a_check_without_a_column_refuses_the_write(expression):
    with pytest.raises(UnsupportedFeatureError, match="column"):
        checked(expression)


def test_an_empty_batch_breaks_nothing():
    assert checked("id < id")(batch(ID)).num_rows == 0


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ((1, {"x": 1, "t": {"y": "a"}}, [{"k": 1}], [("k", [1])]), None),
        ((1, None, None, None), None),
        ((1, {"x": 1, "t": None}, [], []), None),
        ((1, {"x": 1, "t": None}, [None], [("k", None)]), None),
        ((1, {"x": None, "t": None}, None, None), "s.x"),
        ((1, {"x": 1, "t": {"y": None}}, None, None), "s.t.y"),
        ((1, None, [{"k": 1}, {"k": None}], None), "l.element.k"),
    ],
)
def test_nested_nulls_are_refused_only_in_non_null_parents(row, path):
    enforcement = planned(NESTED_TABLE, NESTED)
    fine = (0, {"x": 1, "t": {"y": "b"}}, [{"k": 2}, None, {"k": 3}], [("a", [1, None])])
    rows = batch(NESTED, fine, (5, None, None, None), row, row)
    for start in range(3):  # slices keep the offsets of what is before them
        part = rows.slice(start)
        if path is None:
            assert enforcement(part).to_pylist() == part.to_pylist()
        else:
            (line,) = violations(enforcement, part)
            assert line.startswith(f"column {path!r} is NOT NULL: null in 2 of {4 - start} rows")


def test_not_null_elements_and_values():
    integer, string = PrimitiveType("integer"), PrimitiveType("string")
    deep = ArrayType(ArrayType(integer, contains_null=False))
    schema = StructType(
        (
            StructField("l", deep),
            StructField("m", MapType(string, integer, value_contains_null=False)),
        )
    )
    incoming = pa.schema(
        [("l", pa.list_(pa.list_(pa.int32()))), ("m", pa.map_(pa.string(), pa.int32()))]
    )
    enforcement = planned(schema, incoming)
    good = batch(incoming, ([[1], None, []], [("a", 1)]), (None, None), ([], []))
    assert enforcement(good).to_pylist() == good.to_pylist()
    lines = violations(enforcement, batch(incoming, ([[1]], []), ([[2], [1, None]], [("a", None)])))
    assert [line.split(":")[0] for line in lines] == [
        "column 'l.element.element' is NOT NULL",
        "column 'm.value' is NOT NULL",
    ]
    assert "null in 1 of 2 rows" in lines[0]


def test_an_invariant_of_a_nested_field_is_enforced():
    rule = {"delta.invariants": '{"expression":{"expression":"s.x > 0"}}'}
    inner = StructType((StructField("x", PrimitiveType("integer"), True, rule),))
    schema = StructType((StructField("s", inner),))
    incoming = pa.schema([("s", pa.struct([("x", pa.int32())]))])
    enforcement = planned(schema, incoming)
    assert enforcement(batch(incoming, ({"x": 1},))).num_rows == 1
    (line,) = violations(enforcement, batch(incoming, ({"x": 1},), (None,)))
    assert line.endswith("the first has s.x=None")


@pytest.mark.parametrize(
    "raw", ["not json", "{}", '{"expression":"x"}', '{"expression":{"expression":"f(name)"}}']
)
def test_an_unsupported_invariant_refuses_the_write(raw):
    schema = with_metadata("id bigint, name string", "name", {"delta.invariants": raw})
    with pytest.raises(UnsupportedFeatureError, match="invariant of column 'name'"):
        planned(schema, ID)


@pytest.mark.parametrize(
    ("kind", "given", "taken"), [("varchar(3)", "日本x", "日本x"), ("char(3)", "a", "a  ")]
)
def test_char_and_varchar_lengths(kind, given, taken):
    enforcement = planned(with_metadata("id bigint, name string", "name", {DECLARED: kind}), ID)
    assert enforcement(batch(ID, (1, given), (2, None))).column(1).to_pylist() == [taken, None]
    (line,) = violations(enforcement, batch(ID, (1, "four")))
    assert line.startswith(f"column 'name' is {kind}: violated by 1 of 1 rows")


def test_nested_char_and_varchar_are_refused():
    schema = with_metadata("id bigint, name array<string>", "name", {DECLARED: "array<char(2)>"})
    with pytest.raises(UnsupportedFeatureError, match="char and varchar"):
        planned(schema, pa.schema([("id", pa.int64())]))
    inner = StructField("t", PrimitiveType("string"), metadata={DECLARED: "char(2)"})
    nested = StructType((StructField("s", StructType((inner,))),))
    with pytest.raises(UnsupportedFeatureError, match=r"column 's\.t' is char\(2\)"):
        planned(nested, pa.schema([("s", pa.struct([("t", pa.string())]))]))


def test_a_constraint_on_a_missing_column_names_the_column():
    with pytest.raises(SchemaMismatchError, match="needs column 'gone'"):
        checked("gone > 1")
