"""Column ids and physical names: assigned once to every field, and never reused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import SchemaError
from lazydelta.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_columns,
)
from lazydelta.schema.mapping import assign_column_ids, to_physical, without_column_ids

ID, NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
NESTED = parse_columns(
    "a int, b struct<c: int, d: array<struct<e: int>>>, f map<struct<g: int>, struct<h: int>>"
)


def _entries(schema, key):
    return {".".join(path): item.metadata.get(key) for path, item in schema.all_fields()}


def test_every_field_gets_an_id_parents_first():
    schema, last = assign_column_ids(NESTED, last_id=0, keep_names=True)
    assert _entries(schema, ID) == {
        "a": 1,
        "b": 2,
        "b.c": 3,
        "b.d": 4,
        "b.d.element.e": 5,
        "f": 6,
        "f.key.g": 7,
        "f.value.h": 8,
    }
    assert last == 8
    assert all(path.endswith(name) for path, name in _entries(schema, NAME).items())


def test_assigned_ids_are_kept_and_new_ones_are_higher():
    schema, _ = assign_column_ids(NESTED, last_id=10, keep_names=False)
    before = _entries(schema, ID), _entries(schema, NAME)
    more = StructType((*schema.fields, StructField("z", PrimitiveType("long"))))
    after, last = assign_column_ids(more, last_id=18, keep_names=False)
    assert last == 19
    assert _entries(after, ID) == {**before[0], "z": 19}
    assert {k: v for k, v in _entries(after, NAME).items() if k != "z"} == before[1]
    assert _entries(after, NAME)["z"].startswith("col-")


def test_an_existing_id_above_last_id_raises_it():
    field = StructField("a", PrimitiveType("long"), metadata={ID: 40, NAME: "x"})
    schema, last = assign_column_ids(
        StructType((StructField("b", PrimitiveType("long")), field)), last_id=3, keep_names=False
    )
    assert (_entries(schema, ID), last) == ({"b": 41, "a": 40}, 41)


def test_a_shared_id_is_refused():
    fields = [StructField(n, PrimitiveType("long"), metadata={ID: 1, NAME: n}) for n in "ab"]
    with pytest.raises(SchemaError, match="'a' and 'b' share"):
        assign_column_ids(StructType(tuple(fields)), last_id=1, keep_names=False)


TYPES = st.recursive(
    st.sampled_from([PrimitiveType("long"), PrimitiveType("string")]),
    lambda inner: st.one_of(
        st.builds(ArrayType, inner),
        st.builds(MapType, inner, inner),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: StructType(
                tuple(StructField(f"f{at}", kind) for at, kind in enumerate(kinds))
            )
        ),
    ),
    max_leaves=12,
)


@given(st.lists(TYPES, min_size=1, max_size=4), st.booleans())
def test_ids_are_unique_and_removable(kinds, keep_names):
    bare = StructType(tuple(StructField(f"c{at}", kind) for at, kind in enumerate(kinds)))
    schema, last = assign_column_ids(bare, last_id=0, keep_names=keep_names)
    ids = list(_entries(schema, ID).values())
    assert sorted(ids) == list(range(1, last + 1))
    assert without_column_ids(schema) == bare
    assert assign_column_ids(schema, last_id=last, keep_names=False) == (schema, last)
    if keep_names:
        assert without_column_ids(to_physical(schema, "name")) == bare
