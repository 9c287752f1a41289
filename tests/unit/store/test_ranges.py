from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lazydelta.store.ranges import merged_ranges

SPANS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 40)).map(lambda s: (s[0], s[0] + s[1]))
)


@given(SPANS, st.integers(0, 30))
def test_merged_ranges_cover_all_ranges_and_small_gaps_only(spans, gap):
    merged = merged_ranges(spans, gap=gap)
    requested = {byte for start, end in spans for byte in range(start, end)}
    fetched = {byte for start, end in merged for byte in range(start, end)}
    assert requested <= fetched
    for (_, end), (start, _) in pairwise(merged):
        assert start - end > gap
    for start, end in merged:
        assert {start, end - 1} <= requested
        holes = "".join("x" if byte in requested else " " for byte in range(start, end)).split("x")
        assert max(map(len, holes)) <= gap
