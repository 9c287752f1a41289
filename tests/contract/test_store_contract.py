"""Each test of the store contract fails for a store with the corresponding fault."""

from __future__ import annotations

import time

import pytest

from lazydelta.errors import ObjectNotFoundError
from lazydelta.store import MemoryStore
from lazydelta.store.object_names import listing_batch
from lazydelta.testing import StoreContract


class Unsorted(MemoryStore):
    def list_from(self, directory, *, after=None):
        for page in super().list_from(directory, after=after):
            yield page.take(list(reversed(range(page.num_rows))))


class Inclusive(MemoryStore):
    def list_from(self, directory, *, after=None):
        if after and f"{directory}/{after}" in self._objects:
            yield listing_batch([f"{directory}/{after}"], [0], [0])
        yield from super().list_from(directory, after=after)


class Eager(MemoryStore):
    def list_from(self, directory, *, after=None):
        rows = [
            row for page in super().list_from(directory, after=after) for row in page.to_pylist()
        ]
        yield listing_batch([row["path"] for row in rows], [0] * len(rows), [0] * len(rows))


class Racy(MemoryStore):
    """Checks, then writes: no atomic create."""

    def write(self, path, data, *, overwrite):
        taken = not overwrite and path in self._objects
        time.sleep(0.001)
        super().write(path, data, overwrite=not taken)


class Decoding(MemoryStore):
    def read(self, path):
        return super().read(path.replace("%20", " "))


class Short(MemoryStore):
    def read_ranges(self, path, ranges):
        data = self.read(path)
        return [data[start:end] for start, end in ranges]


class Silent(MemoryStore):
    def read(self, path):
        try:
            return super().read(path)
        except ObjectNotFoundError:
            return b""


class Leaking(MemoryStore):
    def __repr__(self):
        return "store(key=hush)"


class FailsOnMissing(MemoryStore):
    def delete(self, paths):
        for path in paths:
            self.head(path)
        super().delete(paths)


@pytest.mark.parametrize(
    ("store", "test"),
    [
        (Unsorted, "test_listing_returns_direct_children_in_order"),
        (Inclusive, "test_listing_after_a_name_excludes_it"),
        (Eager, "test_a_paged_listing_is_complete_sorted_and_lazy"),
        (Racy, "test_exactly_one_of_many_concurrent_creates_succeeds"),
        (FailsOnMissing, "test_delete_is_idempotent"),
    ],
)
def test_the_contract_detects_each_fault(store, test):
    with pytest.raises((AssertionError, ObjectNotFoundError)):
        getattr(StoreContract(), test)(store())


def test_the_contract_detects_reads_past_the_end():
    with pytest.raises(pytest.fail.Exception):
        StoreContract().test_a_range_outside_the_object_is_an_error(Short(), (0, 11))


def test_the_contract_detects_decoded_names():
    with pytest.raises(ObjectNotFoundError):
        StoreContract().test_names_are_not_encoded_or_decoded(Decoding(), "a%20b")


def test_the_contract_detects_hidden_missing_objects():
    with pytest.raises(pytest.fail.Exception):
        StoreContract().test_reading_a_missing_object_raises_not_found(Silent(), "missing")


def test_the_contract_detects_leaked_secrets():
    class Contract(StoreContract):
        secrets = ("hush",)

    with pytest.raises(AssertionError):
        Contract().test_secrets_are_not_shown(Leaking())
