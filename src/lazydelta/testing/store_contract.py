"""Conformance suite for implementations of `Store`.

Subclass `StoreContract` and define a fixture `store` that returns an empty store:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self):
            return MyStore(...)
"""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta.errors import ObjectExistsError, ObjectNotFoundError, StoreError
from lazydelta.store import LISTING_SCHEMA, list_level, list_tree, open_output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta.store import Store

__all__ = ["StoreContract"]

_SPECIAL_NAMES = [
    pytest.param("with space", id="space"),
    pytest.param("a%20b", id="percent-that-looks-encoded"),
    pytest.param("x=A%2FA", id="percent-slash"),
    pytest.param("100%", id="percent-alone"),
    pytest.param("a+b", id="plus"),
    pytest.param("a#b", id="hash"),
    pytest.param("a?b=c&d", id="question-mark"),
    pytest.param("a:b@c", id="colon-at"),
    pytest.param("x='y'(z)!$*,;~", id="reserved"),
    pytest.param("zürich-☃-日本", id="unicode"),
    pytest.param("a&amp;<b>", id="xml"),
]


class StoreContract:
    """Conformance tests to inherit; they need a `store` fixture."""

    secrets: ClassVar[tuple[str, ...]] = ()
    """Keys and tokens of the fixture's store: they must not appear in its repr or errors."""

    # --- listing

    def test_listing_returns_direct_children_in_order(self, store: Store) -> None:
        for path in ("d/b", "d/a", "d/c/deep", "other/x", "d0", "top"):
            store.write(path, b"12345", overwrite=False)
        batches = list(store.list_from("d"))
        assert all(batch.schema.equals(LISTING_SCHEMA) for batch in batches)
        assert _paths(batches) == ["d/a", "d/b"]
        assert [row["size"] for batch in batches for row in batch.to_pylist()] == [5, 5]

    def test_listing_the_root(self, store: Store) -> None:
        for path in ("b", "a", "d/c"):
            store.write(path, b"", overwrite=False)
        assert _paths(store.list_from("")) == ["a", "b"]

    def test_listing_after_a_name_excludes_it(self, store: Store) -> None:
        for name in ("00", "01", "01.x", "02", "10"):
            store.write(f"d/{name}", b"", overwrite=False)
        assert _paths(store.list_from("d", after="01")) == ["d/01.x", "d/02", "d/10"]
        assert _paths(store.list_from("d", after="011")) == ["d/02", "d/10"]
        assert _paths(store.list_from("d", after="10")) == []

    def test_listing_a_missing_directory_is_empty(self, store: Store) -> None:
        store.write("d/a", b"", overwrite=False)
        assert _paths(store.list_from("missing")) == []
        assert _paths(store.list_from("d/a")) == []
        assert _paths(store.list_from("d/missing", after="x")) == []

    def test_listing_orders_names_by_code_point(self, store: Store) -> None:
        names = ["A", "B", "a", "b", "0", "_", "ä", "z", "-", ".x", "☃", "\U0001f600", "\ufb01"]
        for name in names:
            store.write(f"d/{name}", b"", overwrite=False)
        assert _paths(store.list_from("d")) == [f"d/{name}" for name in sorted(names)]

    def test_listing_has_modification_times(self, store: Store) -> None:
        store.write("d/a", b"x", overwrite=False)
        (row,) = next(store.list_from("d")).to_pylist()
        listed = int(row["modified"].timestamp() * 1000)
        assert abs(listed - store.head("d/a").modified_ms) <= 1000
        assert listed > 1_600_000_000_000

    def test_a_paged_listing_is_complete_sorted_and_lazy(self, store: Store) -> None:
        names = [f"{number:06d}" for number in range(1100)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: store.write(f"d/{name}", b"", overwrite=False), names))
        assert _paths(store.list_from("d")) == [f"d/{name}" for name in names]
        assert _paths(store.list_from("d", after="001050")) == [f"d/{n}" for n in names[1051:]]
        listing = store.list_from("d")
        first = next(listing)
        assert 0 < first.num_rows < len(names)
        listing.close()  # type: ignore[attr-defined]

    def test_listing_all_directories(self, store: Store) -> None:
        """A store without `list_tree` passes: it is optional."""
        if not hasattr(store, "list_tree"):
            return
        paths = ["a-b/x", "a/b/c", "a/x", "a0", "d e/1%20", "d e/ä", "z"]
        for path in paths:
            store.write(path, b"123", overwrite=False)
        batches = list(list_tree(store))
        assert all(batch.schema.equals(LISTING_SCHEMA) for batch in batches)
        assert _paths(batches) == paths
        assert [row["size"] for batch in batches for row in batch.to_pylist()] == [3] * len(paths)
        for position, path in enumerate(paths):
            assert _paths(list_tree(store, after=path)) == paths[position + 1 :]
        assert _paths(list_tree(store, after="a/b")) == paths[1:]
        assert _paths(list_tree(store, after="a/c")) == paths[2:]

    def test_listing_one_directory(self, store: Store) -> None:
        """A store without `list_level` passes: it is optional."""
        if not hasattr(store, "list_level"):
            return
        for path in ("a-b/x", "a/b/c", "a/b/d/e", "a/x", "a0", "d e/1%20", "z"):
            store.write(path, b"123", overwrite=False)
        for directory, names, paths in (
            ("", ["a", "a-b", "d e"], ["a0", "z"]),
            ("a", ["a/b"], ["a/x"]),
            ("d e", [], ["d e/1%20"]),
            ("no", [], []),
        ):
            found, batches = list_level(store, directory)
            assert (sorted(found), sorted(_paths(batches))) == (names, paths)
            assert all(batch.schema.equals(LISTING_SCHEMA) for batch in batches)
        assert _paths(list_tree(store, within="a")) == ["a/b/c", "a/b/d/e", "a/x"]
        assert _paths(list_tree(store, within="a", after="a/b/c")) == ["a/b/d/e", "a/x"]
        assert _paths(list_tree(store, within="d e")) == ["d e/1%20"]

    # --- reading

    def test_read_returns_the_written_bytes(self, store: Store) -> None:
        for data in (b"", b"x", bytes(range(256)) * 1000):
            store.write("a/b", data, overwrite=True)
            assert bytes(store.read("a/b")) == data
            assert store.head("a/b").size == len(data)

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
    def test_write_accepts_every_buffer_type(self, store: Store, kind: type) -> None:
        store.write("a", kind(b"some bytes"), overwrite=False)
        assert bytes(store.read("a")) == b"some bytes"

    @pytest.mark.parametrize("path", ["missing", "d/missing", "missing/a", "d/a/b"])
    def test_reading_a_missing_object_raises_not_found(self, store: Store, path: str) -> None:
        store.write("d/a", b"x", overwrite=False)
        with pytest.raises(ObjectNotFoundError) as raised:
            store.read(path)
        assert path in str(raised.value)
        with pytest.raises(FileNotFoundError):
            store.head(path)
        with pytest.raises(ObjectNotFoundError):
            store.read_ranges(path, [(0, 1)])
        with pytest.raises(ObjectNotFoundError):
            store.open_input(path)

    def test_a_directory_is_not_an_object(self, store: Store) -> None:
        store.write("d/a", b"x", overwrite=False)
        with pytest.raises(ObjectNotFoundError):
            store.read("d")
        with pytest.raises(ObjectNotFoundError):
            store.head("d")

    def test_ranges_are_returned_in_the_requested_order(self, store: Store) -> None:
        data = bytes(range(256)) * 40
        store.write("a", data, overwrite=False)
        ranges = [(100, 200), (0, 4), (0, len(data)), (5000, 5000), (150, 160), (10_000, 10_240)]
        found = store.read_ranges("a", ranges)
        assert [bytes(part) for part in found] == [data[start:end] for start, end in ranges]
        assert store.read_ranges("a", []) == []

    @pytest.mark.parametrize("outside", [(0, 11), (11, 12), (5, 4), (-1, 2)])
    def test_a_range_outside_the_object_is_an_error(
        self, store: Store, outside: tuple[int, int]
    ) -> None:
        store.write("a", b"0123456789", overwrite=False)
        with pytest.raises(StoreError):
            store.read_ranges("a", [(0, 1), outside])

    @pytest.mark.parametrize("with_size", [True, False])
    def test_an_input_file_is_seekable(self, store: Store, with_size: bool) -> None:
        data = bytes(range(256)) * 40
        store.write("a", data, overwrite=False)
        with store.open_input("a", size=len(data) if with_size else None) as file:
            assert file.size() == len(data)
            assert bytes(file.read_at(10, 300)) == data[300:310]
            file.seek(-6, 2)
            assert file.read() == data[-6:]
            file.seek(0)
            assert file.read(5) == data[:5]
            assert file.tell() == 5

    def test_pyarrow_reads_parquet_from_an_input_file(self, store: Store) -> None:
        table = pa.table({"x": list(range(10_000)), "y": [str(n) for n in range(10_000)]})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=1000)
        store.write("t.parquet", sink.getvalue(), overwrite=False)
        file = pq.ParquetFile(store.open_input("t.parquet"), pre_buffer=False)
        assert file.read_row_groups([3, 7], columns=["x"])["x"].to_pylist() == [
            *range(3000, 4000),
            *range(7000, 8000),
        ]
        file.close()

    def test_concurrent_reads(self, store: Store) -> None:
        for number in range(8):
            store.write(f"d/{number}", bytes([number]) * 5000, overwrite=False)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: bytes(store.read(f"d/{n % 8}")), range(64)))
        assert found == [bytes([n % 8]) * 5000 for n in range(64)]

    # --- writing

    def test_create_of_an_existing_object_fails_and_keeps_it(self, store: Store) -> None:
        store.write("a/b", b"first", overwrite=False)
        with pytest.raises(ObjectExistsError) as raised:
            store.write("a/b", b"second", overwrite=False)
        assert "a/b" in str(raised.value)
        assert bytes(store.read("a/b")) == b"first"

    def test_overwrite_replaces_the_object(self, store: Store) -> None:
        store.write("a/b", b"a long first value", overwrite=True)
        store.write("a/b", b"second", overwrite=True)
        assert bytes(store.read("a/b")) == b"second"
        assert store.head("a/b").size == 6

    def test_exactly_one_of_many_concurrent_creates_succeeds(self, store: Store) -> None:
        width, rounds = 32, 3
        for number in range(rounds):
            start = threading.Barrier(width)
            path = f"race/{number}"

            def create(me: int, start: threading.Barrier = start, path: str = path) -> int | None:
                start.wait(60)
                try:
                    store.write(path, b"%03d" % me * 1000, overwrite=False)
                except ObjectExistsError:
                    return None
                return me

            with ThreadPoolExecutor(width) as pool:
                winners = [me for me in pool.map(create, range(width)) if me is not None]
            assert len(winners) == 1
            assert bytes(store.read(path)) == b"%03d" % winners[0] * 1000
        assert _paths(store.list_from("race")) == [f"race/{number}" for number in range(rounds)]

    def test_an_output_is_visible_only_after_publish(self, store: Store) -> None:
        data = bytes(range(256)) * 80_000  # more than one part of an upload
        output = open_output(store, "d/new")
        for start in range(0, len(data), 1 << 20):
            output.file.write(data[start : start + (1 << 20)])
        with pytest.raises(ObjectNotFoundError):
            store.head("d/new")
        assert output.file.tell() == len(data)
        output.publish()
        output.discard()
        assert bytes(store.read("d/new")) == data
        assert _paths(store.list_from("d")) == ["d/new"]

    def test_a_discarded_output_leaves_no_object(self, store: Store) -> None:
        output = open_output(store, "d/new")
        output.file.write(bytes(20_000_000))
        output.discard()
        output.discard()
        assert _paths(store.list_from("d")) == []

    @pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a\nb"])
    def test_an_output_rejects_paths_outside_the_store(self, store: Store, path: str) -> None:
        with pytest.raises(StoreError):
            open_output(store, path)

    def test_delete_is_idempotent(self, store: Store) -> None:
        for path in ("d/a", "d/b", "d/c"):
            store.write(path, b"x", overwrite=False)
        store.delete(["d/missing", "d/a", "gone/x", "d/b"])
        store.delete(["d/a"])
        store.delete([])
        assert _paths(store.list_from("d")) == ["d/c"]

    def test_a_deleted_name_can_be_created_again(self, store: Store) -> None:
        store.write("d/a", b"1", overwrite=False)
        store.delete(["d/a"])
        store.write("d/a", b"2", overwrite=False)
        assert bytes(store.read("d/a")) == b"2"

    # --- names

    @pytest.mark.parametrize("name", _SPECIAL_NAMES)
    def test_names_are_not_encoded_or_decoded(self, store: Store, name: str) -> None:
        store.write(f"d {name}/{name}.x", name.encode(), overwrite=False)
        assert _paths(store.list_from(f"d {name}")) == [f"d {name}/{name}.x"]
        assert bytes(store.read(f"d {name}/{name}.x")) == name.encode()
        assert store.head(f"d {name}/{name}.x").size == len(name.encode())
        with pytest.raises(ObjectExistsError):
            store.write(f"d {name}/{name}.x", b"", overwrite=False)
        store.delete([f"d {name}/{name}.x"])
        assert _paths(store.list_from(f"d {name}")) == []

    @pytest.mark.parametrize(
        "path",
        ["", "/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "a/", "a\0b", "a\nb", ".."],
    )
    def test_paths_outside_the_store_are_rejected(self, store: Store, path: str) -> None:
        with pytest.raises(StoreError):
            store.read(path)
        with pytest.raises(StoreError):
            store.write(path, b"", overwrite=True)
        with pytest.raises(StoreError):
            store.delete([path])
        with pytest.raises(StoreError):
            store.head(path)

    # --- the store itself

    def test_a_pickled_store_reads_the_same_objects(self, store: Store) -> None:
        store.write("d/a", b"x", overwrite=False)
        again = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own bytes
        assert bytes(again.read("d/a")) == b"x"
        assert again.root == store.root
        assert type(again) is type(store)

    def test_secrets_are_not_shown(self, store: Store) -> None:
        with pytest.raises(ObjectNotFoundError) as raised:
            store.read("d/missing")
        shown = [repr(store), str(store), store.root, str(raised.value), repr(raised.value)]
        assert not [secret for secret in self.secrets if secret in " ".join(shown)]
        assert raised.value.__cause__ is None or not self.secrets
        assert not store.root.endswith("/")


def _paths(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [path for batch in batches for path in batch.column("path").to_pylist()]
