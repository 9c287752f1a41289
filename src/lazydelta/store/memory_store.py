"""In-memory store, for tests and for tables within one process."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from lazydelta.errors import ObjectExistsError, ObjectNotFoundError, StoreError
from lazydelta.store import tuning
from lazydelta.store.interface import Buffer, ObjectMeta
from lazydelta.store.object_names import listing_batch, validate_directory, validate_path
from lazydelta.store.uploads import BufferedOutput, Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.store.interface import Level

__all__ = ["MemoryStore"]


class MemoryStore:
    """A `Store` in memory. Pickling makes an independent copy."""

    native_files: ClassVar[bool] = True

    def __init__(
        self, objects: Mapping[str, bytes] | None = None, root: str = "memory://table"
    ) -> None:
        self._root = root.rstrip("/")
        now = time.time_ns() // 10**6
        self._objects = {
            validate_path(path): (bytes(data), now) for path, data in (objects or {}).items()
        }
        self._lock = threading.Lock()

    @property
    def root(self) -> str:
        """The root passed to the constructor, `memory://table` by default."""
        return self._root

    def __repr__(self) -> str:
        return f"MemoryStore({self._root!r}, {len(self._objects)} objects)"

    def __getstate__(self) -> dict[str, Any]:
        return {"_root": self._root, "_objects": dict(self._objects)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the objects directly in `directory`, sorted."""
        directory = validate_directory(directory)
        prefix = f"{directory}/" if directory else ""
        with self._lock:
            objects = {
                path: entry
                for path, entry in self._objects.items()
                if path.startswith(prefix)
                and "/" not in (name := path.removeprefix(prefix))
                and (after is None or name > after)
            }
        yield from _pages(objects)

    def list_tree(self, *, after: str = "", within: str = "") -> Iterator[pa.RecordBatch]:
        """Yield all objects, sorted."""
        prefix = f"{within}/" if within else ""
        with self._lock:
            objects = {
                path: entry
                for path, entry in self._objects.items()
                if path > after and path.startswith(prefix)
            }
        yield from _pages(objects)

    def list_level(self, directory: str) -> Level:
        """Return the directories and objects directly in `directory`."""
        prefix = f"{directory}/" if directory else ""
        with self._lock:
            below = [path for path in self._objects if path.startswith(prefix)]
        deeper = [path for path in below if "/" in path.removeprefix(prefix)]
        names = {prefix + path.removeprefix(prefix).partition("/")[0] for path in deeper}
        return sorted(names), list(self.list_from(directory))

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of an object."""
        data, modified = self._get(path)
        return ObjectMeta(path=path, size=len(data), modified_ms=modified)

    def read(self, path: str) -> Buffer:
        """Return an object."""
        return self._get(path)[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Return the `(start, end)` ranges of an object, in that order."""
        data = self._get(path)[0]
        for start, end in ranges:
            if not 0 <= start <= end <= len(data):
                raise StoreError(path, f"range {start}-{end} exceeds the {len(data)} bytes")
        return [data[start:end] for start, end in ranges]

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads."""
        del size
        return pa.BufferReader(self._get(path)[0])

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Store a copy of `data`."""
        entry = (bytes(data), time.time_ns() // 10**6)
        with self._lock:
            if not overwrite and path in self._objects:
                raise ObjectExistsError(path, "the object exists already")
            self._objects[validate_path(path)] = entry

    def open_output(self, path: str) -> Output:
        """Open a new object."""
        validate_path(path)
        return BufferedOutput(lambda data: self.write(path, data, overwrite=False))

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects."""
        with self._lock:
            for path in paths:
                self._objects.pop(validate_path(path), None)

    def _get(self, path: str) -> tuple[bytes, int]:
        try:
            return self._objects[validate_path(path)]
        except KeyError:
            raise ObjectNotFoundError(path, f"no such object in {self._root}") from None


def _pages(objects: Mapping[str, tuple[bytes, int]]) -> Iterator[pa.RecordBatch]:
    ordered = sorted(objects)
    for start in range(0, len(ordered), tuning.LISTING_PAGE):
        page = ordered[start : start + tuning.LISTING_PAGE]
        yield listing_batch(
            page, [len(objects[path][0]) for path in page], [objects[path][1] for path in page]
        )
