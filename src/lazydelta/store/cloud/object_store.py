"""Store over Azure, S3 and Google Cloud Storage, through obstore.

It adds typed errors, validated listing order, file objects, and an error instead of a hang after
`fork()`.
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
)
from lazydelta.store import tuning
from lazydelta.store.cloud.credentials import Credential, check_picklable
from lazydelta.store.cloud.listing_order import ordered_pages
from lazydelta.store.cloud.object_client import GivenClient, connector, error_reason
from lazydelta.store.cloud.storage_options import client_options
from lazydelta.store.cloud.store_url import parse_store_url
from lazydelta.store.interface import LISTING_SCHEMA, Buffer, ObjectMeta
from lazydelta.store.object_names import join_path, validate_directory, validate_path
from lazydelta.store.ranges import merged_ranges, open_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.store.uploads import Output

__all__ = ["ObjectStore"]

_STATUS = re.compile(r"status code: (\d{3})")


class _ForkGuard:
    """Detects a forked child: obstore's threads do not survive `fork()`, so requests would hang."""

    used = False
    forked_after_use = False

    @classmethod
    def after_fork(cls) -> None:
        cls.forked_after_use = cls.used


os.register_at_fork(after_in_child=_ForkGuard.after_fork)


class ObjectStore:
    """A `Store` over one prefix of a bucket or container.

    Pickling includes the URL and the options, never a connection, and a credential only if it is
    a function of a module. Options may hold secrets: to send stores between processes, prefer the
    environment or a managed identity to keys.
    """

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, str] | None = None,
        credential: Credential | None = None,
        *,
        store: Any = None,
    ) -> None:
        self._url = url
        self._options = dict(storage_options or {})
        self._credential = credential
        self._given = store
        parsed = parse_store_url(url)
        self._root = parsed.root
        options = client_options(parsed.provider, {**parsed.options, **self._options})
        self._account = options.config.get("account_name", parsed.bucket)
        self._connect = (
            connector(parsed, options, credential) if store is None else GivenClient(parsed, store)
        )
        self._obs, self._client = self._connect(options.config, options.retry)
        self._is_ordered = not parsed.bucket.endswith("--x-s3")  # S3 Express lists unordered

    @property
    def root(self) -> str:
        """The table's URL, without secrets."""
        return self._root

    @property
    def is_bound_to_process(self) -> bool:
        """Whether it signs in with an object of the caller, which other processes do not have."""
        return self._credential is not None or self._given is not None

    def __repr__(self) -> str:
        return f"ObjectStore({self._root!r})"

    def __reduce__(self) -> tuple[type[ObjectStore], tuple[Any, ...]]:
        check_picklable("store", self._given)
        check_picklable("credential", self._credential)
        return (ObjectStore, (self._url, self._options, self._credential))

    def sibling(self, url: str) -> ObjectStore | None:
        """Return the store of another URL with the same credentials.

        None if it is in another Azure account or another bucket.
        """
        own, other = parse_store_url(self._url), parse_store_url(url)
        account = other.options.get("account_name", self._account)
        bucket = own.bucket if own.provider == "azure" else other.bucket
        if (own.provider, own.bucket, self._account) != (other.provider, bucket, account):
            return None
        options = {**own.options, **self._options}
        return ObjectStore(url, options, self._credential, store=self._given)

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the objects directly in `directory`, one page of the store at a time."""
        directory = validate_directory(directory)
        child = re.escape(f"{directory}/" if directory else "")
        start = join_path(directory, after) if after else ""
        with self._translating(directory or self._root):
            pages = iter(
                self._obs.list(
                    self._client,
                    directory or None,
                    offset=start or None,
                    chunk_size=tuning.LISTING_PAGE,
                    return_arrow=True,
                )
            )
        batches = self._pages(directory, pages, f"^{child}[^/]+$")
        return ordered_pages(batches, after=start, is_ordered=self._is_ordered)

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of an object."""
        with self._translating(path):
            meta = self._obs.head(self._client, validate_path(path))
        modified = int(meta["last_modified"].timestamp() * 1000)
        return ObjectMeta(path=path, size=meta["size"], modified_ms=modified)

    def read(self, path: str) -> Buffer:
        """Read a whole object."""
        with self._translating(path):
            return pa.py_buffer(self._obs.get(self._client, validate_path(path)).bytes())

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read the `(start, end)` ranges of an object; close ones are fetched in one request."""
        if any(not 0 <= start <= end for start, end in ranges):
            raise StoreError(path, f"invalid ranges: {list(ranges)}")
        merged = merged_ranges(ranges, gap=tuning.COALESCE_GAP)
        if not merged:
            return [b""] * len(ranges)
        # Coalesced here and not by obstore, which panics if the response to a coalesced request
        # is too short.
        starts, ends = zip(*merged, strict=True)
        with self._translating(path):
            responses = self._obs.get_ranges(
                self._client, validate_path(path), starts=starts, ends=ends
            )
        parts = [_exact(path, span, data) for span, data in zip(merged, responses, strict=True)]
        return [_slice(span, starts, parts) for span in ranges]

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads; without `size`, a request fetches it."""
        length = self.head(path).size if size is None else size

        def read_range(start: int, end: int) -> pa.Buffer:
            with self._translating(path):
                data = self._obs.get_range(self._client, validate_path(path), start=start, end=end)
            return _exact(path, (start, end), data)

        return open_ranges(read_range, length)

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write atomically; `overwrite=False` is one conditional put.

        If the response is lost, a retry of the client may fail with `ObjectExistsError` because of
        our own write: a committer must read the object back before it trusts that error.
        """
        with self._translating(path):
            self._obs.put(
                self._client,
                validate_path(path),
                memoryview(data).cast("B"),
                mode="overwrite" if overwrite else "create",
            )

    def open_output(self, path: str) -> Output:
        """Open a new object as a multipart upload; a small one is a single put."""
        with self._translating(path):
            writer = self._obs.open_writer(
                self._client, validate_path(path), buffer_size=tuning.UPLOAD_PART
            )
        return _Upload(self, path, writer)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects, in bulk if the store supports it."""
        valid = [validate_path(path) for path in paths]
        if not valid:
            return
        try:
            with self._translating(valid[0]):
                self._obs.delete(self._client, valid)
        except ObjectNotFoundError:
            # Some stores abort a bulk delete at the first missing object.
            for _ in ordered_map(self._delete_one, valid, width=tuning.DELETE_THREADS):
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
                        batch.column("path").cast(LISTING_SCHEMA.field(0).type),
                        batch.column("size").cast(LISTING_SCHEMA.field(1).type),
                        batch.column("last_modified").cast(
                            LISTING_SCHEMA.field(2).type, safe=False
                        ),
                    ],
                    schema=LISTING_SCHEMA,
                )

    @contextlib.contextmanager
    def _translating(self, path: str) -> Iterator[None]:
        if _ForkGuard.forked_after_use:
            raise StoreError(
                self._root,
                "this process was forked after its parent had used an object store, which is not "
                "supported. Start processes with the 'spawn' or 'forkserver' method",
            )
        _ForkGuard.used = True
        try:
            yield
        except StoreError:
            raise
        except (self._obs.exceptions.BaseError, OSError, ValueError) as error:
            raise _to_store_error(self._obs.exceptions, error, f"{self._root}/{path}") from None


class _Upload:
    """A multipart upload; the object is invisible before `publish`."""

    def __init__(self, store: ObjectStore, path: str, writer: Any) -> None:
        self._store = store
        self._path = path
        self._writer = writer
        self._is_open = True
        self.file = pa.PythonFile(self, mode="w")
        self.closed = False

    def publish(self) -> None:
        """Complete the upload."""
        self._is_open = False
        with self._store._translating(self._path):  # noqa: SLF001 - same module
            self._writer.close()

    def discard(self) -> None:
        """Abort the upload, so that the store keeps no parts."""
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
        """Do nothing: parts are sent when they are full."""

    def close(self) -> None:
        self.closed = True


def _exact(path: str, span: tuple[int, int], data: Any) -> pa.Buffer:
    buffer = pa.py_buffer(data)
    if buffer.size != span[1] - span[0]:
        raise StoreError(path, f"range {span[0]}-{span[1]} returned {buffer.size} bytes")
    return buffer


def _slice(span: tuple[int, int], starts: Sequence[int], parts: Sequence[pa.Buffer]) -> pa.Buffer:
    """Return a requested range, sliced from the coalesced range that covers it."""
    if span[0] == span[1]:
        return pa.py_buffer(b"")
    which = bisect.bisect_right(starts, span[0]) - 1
    return parts[which].slice(span[0] - starts[which], span[1] - span[0])


def _to_store_error(exceptions: Any, error: Exception, path: str) -> StoreError:
    reason = error_reason(error)
    status = _STATUS.search(reason)
    code = int(status[1]) if status else 0
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return StoreAccessError(path, f"{reason}. Check the credentials and their permissions")
    if isinstance(error, FileNotFoundError) or code == 404:
        return ObjectNotFoundError(path, reason)
    if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
        return ObjectExistsError(path, reason)
    is_permanent = isinstance(
        error, exceptions.NotSupportedError | exceptions.InvalidPathError | ValueError
    )
    if is_permanent or (400 <= code < 500 and code not in (408, 409, 429)):
        return StoreError(path, reason)
    return TransientStoreError(path, reason)
