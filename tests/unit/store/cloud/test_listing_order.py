from __future__ import annotations

import pytest

from lazydelta.errors import StoreError
from lazydelta.store.cloud.listing_order import ordered_pages
from lazydelta.store.object_names import listing_batch


def pages(*names):
    return iter([listing_batch(page, [0] * len(page), [0] * len(page)) for page in names])


def listed(batches):
    return [name for batch in batches for name in batch.column("path").to_pylist()]


def test_ordered_pages_stream():
    batches = ordered_pages(pages(["a", "b"], ["c"]), after="", is_ordered=True)
    assert listed([next(batches)]) == ["a", "b"]
    assert listed(batches) == ["c"]


@pytest.mark.parametrize("names", [(["a", "c"], ["b"]), (["b", "a"],), (["a"], ["a"])])
def test_an_unexpected_order_is_an_error(names):
    with pytest.raises(StoreError, match="unordered"):
        listed(ordered_pages(pages(*names), after="", is_ordered=True))


def test_a_server_that_ignores_the_offset():
    batches = ordered_pages(pages(["a", "b"], ["c", "d"], ["e"]), after="c", is_ordered=True)
    assert listed(batches) == ["d", "e"]


def test_an_unordered_listing_is_sorted():
    batches = ordered_pages(pages(["c", "a"], ["d", "b"]), after="a", is_ordered=False)
    assert listed(batches) == ["b", "c", "d"]


def test_non_ascii_names_are_sorted():
    utf16 = (["a", "b"], ["c", "x\U0001f600"], ["x\ufb01", "y"])
    batches = ordered_pages(pages(*utf16), after="a", is_ordered=True)
    assert listed([next(batches)]) == ["b"]  # ASCII pages before still stream
    assert listed(batches) == ["c", "x\ufb01", "x\U0001f600", "y"]
