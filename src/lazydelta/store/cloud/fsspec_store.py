"""Store over a filesystem of fsspec that the caller passes.

Requests and credentials are those of the filesystem. Commits need an exclusive create, which few
filesystems have; a table on another one is read-only.
"""

from __future__ import annotations

import contextlib
import inspect
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, unquote

import pyarrow as pa

from lazydelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
    redact,
)
from lazydelta.store import tuning
from lazydelta.store.cloud.credentials import check_picklable
from lazydelta.store.interface import Buffer, ObjectMeta
from lazydelta.store.object_names import (
    join_path,
    listing_batch,
    validate_directory,
    validate_path,
)
from lazydelta.store.ranges import open_ranges
from lazydelta.store.uploads import BufferedOutput, Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["FsspecStore"]

# Filesystems whose `pipe_file` can be one conditional put.
_EXCLUSIVE = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
_MODIFIED = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")
_UNENCODED = "/!$&'()*+,;=:@~"


class FsspecStore:
    """A `Store` over one directory of an fsspec filesystem.

    Args:
        filesystem: The filesystem; it is never pickled, because it may hold secrets.
        url: The table's URL, percent-encoded, or its plain path in the filesystem.
    """

    is_bound_to_process = True

    def __init__(self, filesystem: Any, url: str) -> None:
        self._filesystem = filesystem
        base = filesystem._strip_protocol(unquote(url) if "://" in url else url)  # noqa: SLF001
        self._base = base.rstrip("/")
        located = filesystem.unstrip_protocol(self._base)
        self._root = redact(quote(located, safe=_UNENCODED))

    @property
    def root(self) -> str:
        """The table's URL, without secrets."""
        return self._root

    def __repr__(self) -> str:
        return f"FsspecStore({self._root!r})"

    def __reduce__(self) -> NoReturn:
        check_picklable("store", self._filesystem)
        raise AssertionError

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the files directly in `directory`; the filesystem lists them at once."""
        directory = validate_directory(directory)
        parent = self._path(directory) if directory else self._base
        start = join_path(directory, after) if after else ""
        found = {}
        with contextlib.suppress(ObjectNotFoundError), self._translating(directory or self._root):
            self._filesystem.invalidate_cache(parent)
            for entry in self._filesystem.ls(parent, detail=True):
                name = entry["name"].removeprefix(f"{parent}/")
                if entry["type"] == "file" and name != entry["name"] and "/" not in name:
                    found[join_path(directory, name)] = entry
        yield from _pages({path: entry for path, entry in found.items() if path > start})

    def list_tree(self, *, after: str = "") -> Iterator[pa.RecordBatch]:
        """Yield all files; the filesystem lists them at once."""
        found = {}
        with contextlib.suppress(ObjectNotFoundError), self._translating(self._root):
            self._filesystem.invalidate_cache(self._base)
            for name, entry in self._filesystem.find(self._base, detail=True).items():
                path = name.removeprefix(f"{self._base}/")
                if path != name and path > after:
                    found[path] = entry
        yield from _pages(found)

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of a file."""
        location = self._path(validate_path(path))
        with self._translating(path):
            entry = self._filesystem.info(location)
        if entry["type"] != "file":
            raise ObjectNotFoundError(f"{self._root}/{path}", "it is a directory")
        return ObjectMeta(path=path, size=entry["size"], modified_ms=_modified_ms(entry))

    def read(self, path: str) -> Buffer:
        """Read a whole file."""
        location = self._path(validate_path(path))
        with self._translating(path):
            return pa.py_buffer(self._filesystem.cat_file(location))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read the `(start, end)` ranges of a file."""
        location = self._path(validate_path(path))
        if any(not 0 <= start <= end for start, end in ranges):
            raise StoreError(path, f"invalid ranges: {list(ranges)}")
        wanted = [span for span in ranges if span[0] < span[1]]
        if not wanted:
            return [b""] * len(ranges)
        starts, ends = map(list, zip(*wanted, strict=True))
        with self._translating(path):
            found = self._filesystem.cat_ranges(
                [location] * len(wanted), starts, ends, on_error="raise"
            )
        parts = (self._exact(path, span, data) for span, data in zip(wanted, found, strict=True))
        return [next(parts) if start < end else b"" for start, end in ranges]

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads; without `size`, a request fetches it."""
        length = self.head(path).size if size is None else size

        def read_range(start: int, end: int) -> pa.Buffer:
            return self.read_ranges(path, [(start, end)])[0]

        return open_ranges(read_range, length)

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write a file; `overwrite=False` needs a filesystem that creates exclusively."""
        location = self._path(validate_path(path))
        more = {} if overwrite else self._exclusive_create(path)
        with self._translating(path):
            self._filesystem.pipe_file(location, bytes(data), **more)

    def open_output(self, path: str) -> Output:
        """Open a new file, which is buffered in memory."""
        location = validate_path(path)
        return BufferedOutput(lambda data: self.write(location, data, overwrite=False))

    def check_writable(self, directory: str) -> None:
        """Refuse writes to a filesystem that cannot create a file exclusively."""
        self._exclusive_create(directory)

    def _exclusive_create(self, path: str) -> dict[str, Any]:
        """Return the argument of `pipe_file` that makes it fail if the file exists.

        A filesystem without it may accept and ignore it, so the signature decides.
        """
        protocols = self._filesystem.protocol
        names = {protocols} if isinstance(protocols, str) else {*protocols}
        method = getattr(self._filesystem, "_pipe_file", self._filesystem.pipe_file)
        parameters = inspect.signature(method).parameters
        if names & _EXCLUSIVE and "mode" in parameters:
            return {"mode": "create"}
        if names & _EXCLUSIVE and "overwrite" in parameters:
            return {"overwrite": False}
        raise StoreAccessError(
            f"{self._root}/{path}",
            f"{type(self._filesystem).__name__} cannot create a file only if it does not exist, "
            "which commits need. Open the table without store=, with storage_options",
        )

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files."""
        for location in [self._path(validate_path(path)) for path in paths]:
            with contextlib.suppress(ObjectNotFoundError), self._translating(location):
                self._filesystem.rm_file(location)

    def _path(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _exact(self, path: str, span: tuple[int, int], data: bytes) -> pa.Buffer:
        if len(data) != span[1] - span[0]:
            reason = f"range {span[0]}-{span[1]} returned {len(data)} bytes"
            raise StoreError(f"{self._root}/{path}", reason)
        return pa.py_buffer(data)

    @contextlib.contextmanager
    def _translating(self, path: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - filesystems raise errors of their clients
            raise _to_store_error(error, f"{self._root}/{path}") from None


def _to_store_error(error: Exception, path: str) -> StoreError:
    reason = redact(f"{type(error).__name__}: {error}")
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return ObjectNotFoundError(path, reason)
    if isinstance(error, FileExistsError):
        return ObjectExistsError(path, reason)
    if isinstance(error, PermissionError):
        return StoreAccessError(path, f"{reason}. Check the credentials and their permissions")
    return (
        TransientStoreError(path, reason)
        if isinstance(error, OSError)
        else StoreError(path, reason)
    )


def _modified_ms(entry: dict[str, Any]) -> int:
    """Return the modification time that an entry has, under the name its filesystem uses."""
    value = next((entry[name] for name in _MODIFIED if entry.get(name) is not None), 0)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        value = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
    return int(value * 1000)


def _pages(found: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    paths = sorted(found)
    for first in range(0, len(paths), tuning.LISTING_PAGE):
        page = paths[first : first + tuning.LISTING_PAGE]
        entries = [found[path] for path in page]
        yield listing_batch(page, [e["size"] for e in entries], [*map(_modified_ms, entries)])
