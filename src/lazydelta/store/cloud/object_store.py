"""Store over Azure, S3 and Google Cloud Storage, through obstore.

It adds typed errors, validated listing order, file objects, attempt timeouts and hedged reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._parallel import ordered_map
from lazydelta.errors import ObjectNotFoundError, StoreAccessError, StoreError, TransientStoreError
from lazydelta.store import tuning
from lazydelta.store.cloud.credentials import Credential, check_picklable
from lazydelta.store.cloud.listing_order import ordered_pages
from lazydelta.store.cloud.object_client import GivenClient, connector
from lazydelta.store.cloud.request_errors import secret_values, to_store_error
from lazydelta.store.cloud.requests import Answer, attempt_timeout, check_fork, hedged, run
from lazydelta.store.cloud.resumable_read import Fetched, ObjectIdentity, ResumableRead
from lazydelta.store.cloud.storage_options import client_options
from lazydelta.store.cloud.store_url import parse_store_url
from lazydelta.store.interface import LISTING_SCHEMA, Buffer, ObjectMeta
from lazydelta.store.object_names import join_path, validate_directory, validate_path
from lazydelta.store.ranges import open_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lazydelta.store.cloud.storage_options import ClientOptions
    from lazydelta.store.interface import Level
    from lazydelta.store.uploads import Output

__all__ = ["ObjectStore"]


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
        self._secrets = secret_values(options.config)
        self._connect = (
            connector(parsed, options, credential) if store is None else GivenClient(parsed, store)
        )
        self._obs, self._client = self._connect(options.config, options.retry)
        self._upload_options = _upload_options(options, self._options)
        self._any_xml_is_a_listing = parsed.provider != "azure"  # by the parser of obstore
        self._is_ordered = not parsed.bucket.endswith("--x-s3")  # S3 Express lists unordered

    @property
    def root(self) -> str:
        """The table's URL, without secrets."""
        return self._root

    @property
    def is_bound_to_process(self) -> bool:
        """Whether a client of the caller sends its requests, which other processes do not have."""
        return self._given is not None

    @property
    def credential(self) -> Credential | None:
        """The caller's credential provider."""
        return self._credential

    @property
    def options(self) -> Mapping[str, str]:
        """The caller's storage options; they may hold secrets."""
        return self._options

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
        new_stream = functools.partial(
            self._obs.list,
            self._client,
            directory or None,
            offset=start or None,
            chunk_size=tuning.LISTING_PAGE,
            return_arrow=True,
        )
        batches = self._pages(directory, new_stream, f"^{child}[^/]+$")
        if not start and self._any_xml_is_a_listing:
            batches = self._checked_if_empty(directory, batches)
        return ordered_pages(batches, after=start, is_ordered=self._is_ordered)

    def list_tree(self, *, after: str = "", within: str = "") -> Iterator[pa.RecordBatch]:
        """Yield all objects, one page of the store at a time."""
        new_stream = functools.partial(
            self._obs.list,
            self._client,
            within or None,
            offset=after or None,
            chunk_size=tuning.LISTING_PAGE,
            return_arrow=True,
        )
        batches = self._pages(within, new_stream, "^")
        if not after and self._any_xml_is_a_listing:
            batches = self._checked_if_empty(within, batches)
        return ordered_pages(batches, after=after, is_ordered=self._is_ordered)

    def list_level(self, directory: str) -> Level:
        """Return the directories and objects directly in `directory`."""
        directory = validate_directory(directory)

        request = functools.partial(
            self._obs.list_with_delimiter_async, self._client, directory or None, return_arrow=True
        )
        found = run(self._attempt("list", directory, request, tuning.LEVEL_SECONDS))
        names = [str(name) for name in found["common_prefixes"]]
        pages = pa.table(found["objects"]).to_batches()
        return names, [_listing_batch(page, "^") for page in pages]

    @property
    def lists_from_offsets(self) -> bool:
        """Whether a listing that starts after a path skips the pages before it."""
        return self._is_ordered and self._any_xml_is_a_listing  # Azure has no start offset

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of an object."""
        meta = self._hedged("head", path, self._obs.head_async, validate_path(path))
        modified = int(meta["last_modified"].timestamp() * 1000)
        return ObjectMeta(
            path=path, size=meta["size"], modified_ms=modified, etag=meta.get("e_tag")
        )

    def read(self, path: str) -> Buffer:
        """Read a whole object."""
        return self.resumable_read(path, None)()[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read the `(start, end)` ranges of an object; close ones are fetched in one request."""
        return self.resumable_read(path, ranges)()

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads; without `size`, a request fetches it."""
        identity, length = self.identify(path, size)

        def read_range(start: int, end: int) -> Buffer:
            return self.resumable_read(path, [(start, end)], identity)()[0]

        return open_ranges(read_range, length)

    def identify(self, path: str, size: int | None) -> tuple[ObjectIdentity, int]:
        """Return what the reads of an opened object must share, and its size."""
        if size is not None:
            return ObjectIdentity(size=size), size
        meta = self.head(path)
        return ObjectIdentity(size=meta.size, etag=meta.etag), meta.size

    def resumable_read(
        self,
        path: str,
        ranges: Sequence[tuple[int, int]] | None,
        identity: ObjectIdentity | None = None,
    ) -> ResumableRead:
        """Return a read of ranges, or of the whole object, that can be repeated after a failure."""
        fetch = functools.partial(self._fetch, validate_path(path))
        return ResumableRead(fetch, f"{self._root}/{path}", ranges, identity)

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write atomically; `overwrite=False` is one conditional put.

        If the response is lost, a repeated write may fail with `ObjectExistsError` because of our
        own write: a committer must read the object back before it trusts that error.
        """
        content = memoryview(data).cast("B")
        request = functools.partial(
            self._obs.put_async,
            self._client,
            validate_path(path),
            content,
            mode="overwrite" if overwrite else "create",
            use_multipart=None if overwrite else False,
        )
        operation = "write" if overwrite else "create"
        more_seconds = content.nbytes / tuning.STREAM_CHUNK * tuning.CHUNK_SECONDS
        run(self._attempt(operation, path, request, more_seconds))

    def open_output(self, path: str) -> Output:
        """Open a new object: one put if it is small, else a multipart upload."""
        return _Upload(self, validate_path(path))

    def open_multipart(self, path: str) -> Any:
        """Start a multipart upload; returns the file object of obstore.

        It has a client of its own, which retries: no layer above has the bytes of a part.
        """
        with self._translating("write", path):
            _, client = self._connect(*self._upload_options)
            return self._obs.open_writer(client, path, buffer_size=tuning.UPLOAD_PART)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects, in bulk if the store supports it."""
        valid = [validate_path(path) for path in paths]
        if not valid:
            return
        request = functools.partial(self._obs.delete_async, self._client, valid)
        try:
            run(self._attempt("delete", valid[0], request, len(valid) / tuning.DELETES_PER_SECOND))
        except ObjectNotFoundError:
            # Some stores abort a bulk delete at the first missing object.
            for _ in ordered_map(self._delete_one, valid, width=tuning.DELETE_THREADS):
                pass

    def _delete_one(self, path: str) -> None:
        request = functools.partial(self._obs.delete_async, self._client, path)
        with contextlib.suppress(ObjectNotFoundError):
            run(self._attempt("delete", path, request))

    def _pages(
        self, directory: str, new_stream: Callable[[], Any], children: str
    ) -> Iterator[pa.RecordBatch]:
        async def first_page() -> tuple[Any, Any]:
            stream = new_stream()
            return stream, await anext(stream, None)

        stream, page = self._hedged("list", directory, first_page)
        while page is not None:
            batch = _listing_batch(page, children)
            if batch.num_rows:
                yield batch
            page = run(self._attempt("list", directory, functools.partial(anext, stream, None)))

    def _checked_if_empty(
        self, directory: str, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Doubt an empty listing: an error page with status 200 is one to obstore.

        Where such pages answer, they answer for an object that cannot exist as well.
        """
        is_empty = True
        for batch in batches:
            is_empty = False
            yield batch
        if not is_empty:
            return
        with contextlib.suppress(ObjectNotFoundError, StoreAccessError):
            self.head(join_path(directory, f"no-such-object-{uuid.uuid4().hex}"))
            raise TransientStoreError(
                f"{self._root}/{directory}",
                "the store answers for objects that do not exist, so its empty listing is not one: "
                "check that no proxy or login page answers for the endpoint",
            )

    def _hedged(
        self, operation: str, path: str, request: Callable[..., Any], *arguments: str
    ) -> Any:
        bound = functools.partial(request, self._client, *arguments) if arguments else request
        return run(hedged(lambda _: self._attempt(operation, path, bound)))

    async def _attempt(
        self, operation: str, path: str, request: Callable[[], Any], more_seconds: float = 0.0
    ) -> Any:
        """Send one request, within the timeout of an attempt."""
        with self._translating(operation, path):
            async with attempt_timeout(more_seconds):
                return await request()

    async def _fetch(self, path: str, span: tuple[int, int] | None) -> Fetched:
        return await hedged(functools.partial(self._get, path, span))

    async def _get(self, path: str, span: tuple[int, int] | None, answer: Answer) -> Fetched:
        """Get a range or an object; each chunk of a longer body has a time of its own."""
        options = None if span is None else {"range": span}
        with self._translating("read", path):
            async with attempt_timeout() as timer:
                result = await self._obs.get_async(self._client, path, options=options)
                meta = result.meta
                start, end = result.range
                answer.is_long = end - start > tuning.HEDGE_BYTES
                chunks: list[Buffer] | None
                if span is None and end > tuning.RANGE_PART:
                    chunks = None
                elif end - start <= tuning.SMALL_BODY:
                    chunks = [await result.bytes_async()]
                else:
                    chunks = await _receive(result, timer)
        return Fetched(chunks, meta["size"], meta.get("e_tag"))

    @contextlib.contextmanager
    def _translating(self, operation: str, path: str) -> Iterator[None]:
        check_fork()
        try:
            yield
        except StoreError:
            raise
        except (self._obs.exceptions.BaseError, OSError, ValueError) as error:
            where = f"{self._root}/{path}" if path else self._root
            raise to_store_error(
                self._obs.exceptions, error, where, secrets=self._secrets, operation=operation
            ) from None


class _Upload:
    """A new object: its bytes are kept until they fill a part, then uploaded in parts."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._start = bytearray()
        self._writer: Any = None
        self.file = pa.PythonFile(self, mode="w")
        self.closed = False

    def publish(self) -> None:
        """Put a small object, which may be repeated after a failure, or complete the upload."""
        if self._writer is None:
            self._store.write(self._path, self._start, overwrite=True)
            return
        writer, self._writer = self._writer, None
        try:
            with self._store._translating("write", self._path):  # noqa: SLF001 - same module
                writer.close()
        except TransientStoreError as error:
            # Permanent now: the client has retried, and the parts are gone.
            raise StoreError(error.path, error.reason) from None

    def discard(self) -> None:
        """Abort the upload, so that the store keeps no parts."""
        self._start = bytearray()  # not `clear`: a failed put may still refer to its bytes
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._store._translating("write", self._path):  # noqa: SLF001
                writer.__exit__(StoreError, StoreError(self._path, "discarded"), None)

    # --- the part of Python's file interface that `pa.PythonFile` calls

    def write(self, data: Buffer) -> int:
        content = memoryview(data).cast("B")
        if self._writer is None and len(self._start) + content.nbytes <= tuning.UPLOAD_PART:
            self._start += content
            return content.nbytes
        with self._store._translating("write", self._path):  # noqa: SLF001
            if self._writer is None:
                self._writer = self._store.open_multipart(self._path)
                self._writer.write(self._start)
                self._start = bytearray()
            self._writer.write(content)
        return content.nbytes

    def flush(self) -> None:
        """Do nothing: parts are sent when they are full."""

    def close(self) -> None:
        self.closed = True


async def _receive(result: Any, timer: asyncio.Timeout) -> list[Buffer]:
    loop = asyncio.get_running_loop()
    chunks: list[Buffer] = []
    timer.reschedule(loop.time() + tuning.CHUNK_SECONDS)
    async for chunk in result.stream(tuning.STREAM_CHUNK):
        chunks.append(chunk)
        timer.reschedule(loop.time() + tuning.CHUNK_SECONDS)
    return chunks


def _listing_batch(page: Any, children: str) -> pa.RecordBatch:
    batch = pa.record_batch(page)
    batch = batch.filter(pc.match_substring_regex(batch.column("path"), pattern=children))
    columns = [
        batch.column("path").cast(LISTING_SCHEMA.field(0).type),
        batch.column("size").cast(LISTING_SCHEMA.field(1).type),
        batch.column("last_modified").cast(LISTING_SCHEMA.field(2).type, safe=False),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)


def _upload_options(
    options: ClientOptions, given: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the client options of multipart uploads: with retries, unless the caller set them."""
    config = {"read_timeout": tuning.UPLOAD_READ_TIMEOUT, **options.config}
    retry = dict(options.retry)
    if "max_retries" not in {name.lower() for name in given}:
        retry["max_retries"] = tuning.UPLOAD_RETRIES
    return config, retry
