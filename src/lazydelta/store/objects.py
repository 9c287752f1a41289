"""Tables in Azure, S3 and Google storage, through obstore.

The only module that imports obstore, and only when such a table is opened. It adds what obstore
leaves to its callers: one kind of error, an order of listings that is checked, files for Parquet,
and a clear error instead of a hang after `fork()`.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._parallel import ordered_map
from lazydelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
    redact,
)
from lazydelta.store.address import parse_address
from lazydelta.store.base import LISTING, Buffer, ObjectMeta
from lazydelta.store.list_order import ordered_pages
from lazydelta.store.object_names import checked, checked_directory, listing_name
from lazydelta.store.options import client_options, unknown_option
from lazydelta.store.ranges import merged_ranges, open_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

    from lazydelta.store.uploads import Output

__all__ = ["ObjectStore"]

_PAGE = 1000
_GAP = 1024 * 1024
_WIDTH = 16
_PART = 8 * 1024 * 1024
"""Bytes of an upload that wait in memory; S3 takes no parts below 5 MiB, and 10,000 of them."""
_STATUS = re.compile(r"status code: (\d{3})")
_SHORTEST_SECRET = 3
_UNKNOWN_KEY = re.compile(r"Configuration key: '([^']*)'")


class _Fork:
    """Whether obstore's threads were lost: a child of `fork()` has none, and would wait forever."""

    used = False
    lost = False

    @classmethod
    def mark(cls) -> None:
        cls.lost = cls.used


os.register_at_fork(after_in_child=_Fork.mark)


class ObjectStore:
    """A `Store` over one prefix of a bucket or container.

    Pickling carries the URL and the options, never a connection. Options may hold secrets: where
    stores are sent between processes, prefer the environment or a managed identity to keys.
    """

    def __init__(self, url: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._options = dict(storage_options or {})
        address = parse_address(url)
        self._root = address.root
        options = client_options(address.kind, {**address.options, **self._options})
        self._obs, self._client = _client(
            address.kind, address.bucket, address.prefix, options.config, options.retry
        )
        self._in_order = not address.bucket.endswith("--x-s3")  # S3 Express keeps no order

    @property
    def root(self) -> str:
        """The table's URL, without secrets."""
        return self._root

    def __repr__(self) -> str:
        return f"ObjectStore({self._root!r})"

    def __reduce__(self) -> tuple[type[ObjectStore], tuple[str, dict[str, str]]]:
        return (ObjectStore, (self._url, self._options))

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the objects directly in `directory`, a page of the store at a time."""
        directory = checked_directory(directory)
        child = re.escape(f"{directory}/" if directory else "")
        start = listing_name(directory, after) if after else ""
        with self._translating(directory or self._root):
            pages = iter(
                self._obs.list(
                    self._client,
                    directory or None,
                    offset=start or None,
                    chunk_size=_PAGE,
                    return_arrow=True,
                )
            )
        found = self._pages(directory, pages, f"^{child}[^/]+$")
        return ordered_pages(found, after=start, trusted=self._in_order)

    def head(self, path: str) -> ObjectMeta:
        """Return size and time of one object."""
        with self._translating(path):
            found = self._obs.head(self._client, checked(path))
        modified = int(found["last_modified"].timestamp() * 1000)
        return ObjectMeta(path=path, size=found["size"], modified_ms=modified)

    def read(self, path: str) -> Buffer:
        """Read a whole object."""
        with self._translating(path):
            return pa.py_buffer(self._obs.get(self._client, checked(path)).bytes())

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read the `(start, end)` ranges of an object; near ones are fetched in one request."""
        if any(not 0 <= start <= end for start, end in ranges):
            raise StoreError(path, f"no such ranges: {list(ranges)}")
        spans = merged_ranges(ranges, gap=_GAP)
        if not spans:
            return [b""] * len(ranges)
        # Merged here and not by obstore, which ends the process's thread in a panic when a merged
        # request comes back short.
        starts, ends = zip(*spans, strict=True)
        with self._translating(path):
            found = self._obs.get_ranges(self._client, checked(path), starts=starts, ends=ends)
        parts = [_whole(path, span, data) for span, data in zip(spans, found, strict=True)]
        return [_cut(span, starts, parts) for span in ranges]

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads; without `size`, one request asks for it."""
        length = self.head(path).size if size is None else size

        def read_range(start: int, end: int) -> pa.Buffer:
            with self._translating(path):
                found = self._obs.get_range(self._client, checked(path), start=start, end=end)
            return _whole(path, (start, end), found)

        return open_ranges(read_range, length)

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write atomically; `overwrite=False` is one conditional put, decided by the store.

        After a lost answer the store may report our own write as somebody else's: who commits
        must read back before believing `ObjectExistsError`.
        """
        with self._translating(path):
            self._obs.put(
                self._client,
                checked(path),
                memoryview(data).cast("B"),
                mode="overwrite" if overwrite else "create",
            )

    def open_output(self, path: str) -> Output:
        """Begin a new object, sent in parts while it grows; a small one is a single put."""
        with self._translating(path):
            writer = self._obs.open_writer(self._client, checked(path), buffer_size=_PART)
        return _Upload(self, path, writer)

    def delete(self, paths: Sequence[str]) -> None:
        """Remove objects, many in one request where the store can."""
        wanted = [checked(path) for path in paths]
        if not wanted:
            return
        try:
            with self._translating(wanted[0]):
                self._obs.delete(self._client, wanted)
        except ObjectNotFoundError:
            # Some stores give up at the first that is missing, so each has its turn.
            for _ in ordered_map(self._delete_one, wanted, width=_WIDTH):
                pass

    def _delete_one(self, path: str) -> None:
        with contextlib.suppress(ObjectNotFoundError), self._translating(path):
            self._obs.delete(self._client, path)

    def _pages(
        self, directory: str, pages: Iterator[Any], children: str
    ) -> Iterator[pa.RecordBatch]:
        while True:
            with self._translating(directory or self._root):
                page = next(pages, None)
            if page is None:
                return
            batch = pa.record_batch(page)
            batch = batch.filter(pc.match_substring_regex(batch.column("path"), pattern=children))
            if batch.num_rows:
                yield pa.RecordBatch.from_arrays(
                    [
                        batch.column("path").cast(LISTING.field(0).type),
                        batch.column("size").cast(LISTING.field(1).type),
                        batch.column("last_modified").cast(LISTING.field(2).type, safe=False),
                    ],
                    schema=LISTING,
                )

    @contextlib.contextmanager
    def _translating(self, path: str) -> Iterator[None]:
        if _Fork.lost:
            raise StoreError(
                self._root,
                "this process was forked after its parent had used an object store, which cannot "
                "work. Start processes with the 'spawn' or 'forkserver' method",
            )
        _Fork.used = True
        try:
            yield
        except StoreError:
            raise
        except (self._obs.exceptions.BaseError, OSError, ValueError) as error:
            raise _translated(self._obs.exceptions, error, f"{self._root}/{path}") from None


class _Upload:
    """An object that is being sent. Nothing of it shows before `publish`."""

    def __init__(self, store: ObjectStore, path: str, writer: Any) -> None:
        self._store = store
        self._path = path
        self._writer = writer
        self._is_open = True
        self.file = pa.PythonFile(self, mode="w")
        self.closed = False

    def publish(self) -> None:
        """Send what is left and make the object appear."""
        self._is_open = False
        with self._store._translating(self._path):  # noqa: SLF001 - of this module
            self._writer.close()

    def discard(self) -> None:
        """Abort the upload, so that the store keeps no parts of it."""
        if self._is_open:
            self._is_open = False
            with self._store._translating(self._path):  # noqa: SLF001
                self._writer.__exit__(StoreError, StoreError(self._path, "discarded"), None)

    # --- the part of Python's file interface that `pa.PythonFile` calls

    def write(self, data: Buffer) -> int:
        with self._store._translating(self._path):  # noqa: SLF001
            self._writer.write(memoryview(data).cast("B"))
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Parts are sent when they are full."""

    def close(self) -> None:
        self.closed = True


def _client(
    kind: str, bucket: str, prefix: str, config: dict[str, str], retry: dict[str, Any]
) -> tuple[ModuleType, Any]:
    """Import obstore and make its client; no request is sent."""
    import obstore
    import obstore.exceptions
    import obstore.store

    make = {
        "azure": obstore.store.AzureStore,
        "s3": obstore.store.S3Store,
        "gcs": obstore.store.GCSStore,
    }[kind]
    try:
        client = make(bucket, prefix=prefix or None, config=config, retry_config=retry)
    except obstore.exceptions.UnknownConfigurationKeyError as error:
        found = _UNKNOWN_KEY.search(str(error))
        raise unknown_option(kind, found[1] if found else "?") from None
    except (obstore.exceptions.BaseError, ValueError) as error:
        reason = _without_values(_reason(error), config)
        raise StoreAccessError(
            f"{kind} store {bucket!r}", f"{reason}. Check storage_options and environment"
        ) from None
    return obstore, client


def _without_values(text: str, config: Mapping[str, Any]) -> str:
    """Return a message without the settings' values, which obstore may quote: one may be secret."""
    for value in sorted(map(str, config.values()), key=len, reverse=True):
        if len(value) > _SHORTEST_SECRET:
            text = text.replace(value, "***")
    return text


def _whole(path: str, span: tuple[int, int], data: Any) -> pa.Buffer:
    found = pa.py_buffer(data)
    if found.size != span[1] - span[0]:
        raise StoreError(path, f"bytes {span[0]} to {span[1]} asked, {found.size} of them exist")
    return found


def _cut(span: tuple[int, int], starts: Sequence[int], parts: Sequence[pa.Buffer]) -> pa.Buffer:
    """Return one wanted range from the fetched one that covers it."""
    if span[0] == span[1]:
        return pa.py_buffer(b"")
    which = bisect.bisect_right(starts, span[0]) - 1
    return parts[which].slice(span[0] - starts[which], span[1] - span[0])


def _reason(error: Exception) -> str:
    """Return the first paragraph: what follows repeats it as a debug print of Rust values."""
    return redact(str(error).partition("\n\nDebug source")[0])


def _translated(exceptions: Any, error: Exception, path: str) -> StoreError:
    reason = _reason(error)
    status = _STATUS.search(reason)
    code = int(status[1]) if status else 0
    kinds = exceptions
    if isinstance(error, kinds.PermissionDeniedError | kinds.UnauthenticatedError):
        return StoreAccessError(path, f"{reason}. Check the credentials and their rights")
    if isinstance(error, FileNotFoundError) or code == 404:
        return ObjectNotFoundError(path, reason)
    if isinstance(error, kinds.AlreadyExistsError | kinds.PreconditionError):
        return ObjectExistsError(path, reason)
    lasting = isinstance(error, kinds.NotSupportedError | kinds.InvalidPathError | ValueError)
    if lasting or (400 <= code < 500 and code not in (408, 409, 429)):
        return StoreError(path, reason)
    return TransientStoreError(path, reason)
