"""A store in a dictionary, for tests and for tables that never leave the process."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from lazydelta.errors import ObjectExistsError, ObjectNotFoundError, StoreError
from lazydelta.store.base import Buffer, ObjectMeta
from lazydelta.store.object_names import checked, checked_directory, listing_batch
from lazydelta.store.uploads import BufferedOutput, Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["MemoryStore"]

_PAGE = 1000


class MemoryStore:
    """A `Store` of this process. Copies made by pickling start equal and live apart."""

    native_files: ClassVar[bool] = True

    def __init__(
        self, objects: Mapping[str, bytes] | None = None, root: str = "memory://table"
    ) -> None:
        self._root = root.rstrip("/")
        now = time.time_ns() // 10**6
        self._objects = {
            checked(path): (bytes(data), now) for path, data in (objects or {}).items()
        }
        self._lock = threading.Lock()

    @property
    def root(self) -> str:
        """The address given to it, `memory://table` by default."""
        return self._root

    def __repr__(self) -> str:
        return f"MemoryStore({self._root!r}, {len(self._objects)} objects)"

    def __getstate__(self) -> dict[str, Any]:
        return {"_root": self._root, "_objects": dict(self._objects)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the objects directly in `directory`, sorted."""
        directory = checked_directory(directory)
        prefix = f"{directory}/" if directory else ""
        with self._lock:
            found = {
                path: entry
                for path, entry in self._objects.items()
                if path.startswith(prefix)
                and "/" not in (name := path.removeprefix(prefix))
                and (after is None or name > after)
            }
        ordered = sorted(found)
        for start in range(0, len(ordered), _PAGE):
            page = ordered[start : start + _PAGE]
            yield listing_batch(
                page, [len(found[path][0]) for path in page], [found[path][1] for path in page]
            )

    def head(self, path: str) -> ObjectMeta:
        """Return size and time of one object."""
        data, modified = self._get(path)
        return ObjectMeta(path=path, size=len(data), modified_ms=modified)

    def read(self, path: str) -> Buffer:
        """Return an object."""
        return self._get(path)[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Return the `(start, end)` ranges of an object, in their order."""
        data = self._get(path)[0]
        for start, end in ranges:
            if not 0 <= start <= end <= len(data):
                raise StoreError(path, f"bytes {start} to {end} asked of an object of {len(data)}")
        return [data[start:end] for start, end in ranges]

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads."""
        del size
        return pa.BufferReader(self._get(path)[0])

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Keep a copy of `data`."""
        entry = (bytes(data), time.time_ns() // 10**6)
        with self._lock:
            if not overwrite and path in self._objects:
                raise ObjectExistsError(path, "there is an object of this name already")
            self._objects[checked(path)] = entry

    def open_output(self, path: str) -> Output:
        """Begin a new object."""
        checked(path)
        return BufferedOutput(lambda data: self.write(path, data, overwrite=False))

    def delete(self, paths: Sequence[str]) -> None:
        """Forget objects."""
        with self._lock:
            for path in paths:
                self._objects.pop(checked(path), None)

    def _get(self, path: str) -> tuple[bytes, int]:
        try:
            return self._objects[checked(path)]
        except KeyError:
            raise ObjectNotFoundError(path, f"no such object in {self._root}") from None
