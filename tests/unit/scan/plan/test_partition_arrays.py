from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.replay.skipping import map_values
from tests.support import examples

KIND = pa.map_(pa.string(), pa.string())
PAIR = st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", None]))


def maps_of(least, most):
    return st.lists(PAIR, min_size=least, max_size=most, unique_by=lambda pair: pair[0])


@examples(200, long=2000)
@given(
    maps=st.lists(st.none() | maps_of(0, 3), max_size=5)
    | st.integers(1, 3).flatmap(lambda n: st.lists(maps_of(n, n))),
    key=st.sampled_from("abcd"),
    start=st.integers(0, 3),
)
def test_values_are_those_of_a_map_lookup(maps, key, start):
    values = pa.array(maps, KIND).slice(start)
    assert map_values(values, key).to_pylist() == pc.map_lookup(values, key, "first").to_pylist()


@pytest.mark.parametrize("key", ["a", "b"])
def test_maps_with_the_same_keys_are_not_searched_one_by_one(key, monkeypatch):
    values = pa.array([[("a", "1"), ("b", None)], [("a", "3"), ("b", "4")]], KIND)
    expected = pc.map_lookup(values, key, "first").to_pylist()
    monkeypatch.delattr(pc, "map_lookup")
    assert map_values(values, key).to_pylist() == expected
