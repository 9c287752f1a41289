from __future__ import annotations

import pytest

from lazydelta.errors import StoreError
from lazydelta.store.list_order import ordered_pages
from lazydelta.store.object_names import listing_batch


def pages(*names):
    return iter([listing_batch(page, [0] * len(page), [0] * len(page)) for page in names])


def listed(batches):
    return [name for batch in batches for name in batch.column("path").to_pylist()]


def test_pages_in_order_pass_one_by_one():
    found = ordered_pages(pages(["a", "b"], ["c"]), after="", trusted=True)
    assert listed([next(found)]) == ["a", "b"]
    assert listed(found) == ["c"]


@pytest.mark.parametrize("given", [(["a", "c"], ["b"]), (["b", "a"],), (["a"], ["a"])])
def test_a_broken_promise_is_an_error(given):
    with pytest.raises(StoreError, match="keeps no order"):
        listed(ordered_pages(pages(*given), after="", trusted=True))


def test_a_server_that_ignores_the_start_costs_time_not_rows():
    found = ordered_pages(pages(["a", "b"], ["c", "d"], ["e"]), after="c", trusted=True)
    assert listed(found) == ["d", "e"]


def test_a_store_without_order_is_sorted():
    found = ordered_pages(pages(["c", "a"], ["d", "b"]), after="a", trusted=False)
    assert listed(found) == ["b", "c", "d"]


def test_names_on_whose_order_stores_differ_are_sorted():
    utf16 = (["a", "b"], ["c", "x\U0001f600"], ["x\ufb01", "y"])
    found = ordered_pages(pages(*utf16), after="a", trusted=True)
    assert listed([next(found)]) == ["b"]  # what came before still streams
    assert listed(found) == ["c", "x\ufb01", "x\U0001f600", "y"]
