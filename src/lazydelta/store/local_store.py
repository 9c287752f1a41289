"""Store over a local directory, with plain system calls.

Writes are atomic, and symbolic links cannot escape the root.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import re
import stat
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from lazydelta._failpoints import failpoint
from lazydelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
    from_os_error,
)
from lazydelta.store import tuning
from lazydelta.store.interface import Buffer, ObjectMeta
from lazydelta.store.object_names import join_path, listing_batch, validate_directory, validate_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.store.interface import Level
    from lazydelta.store.uploads import Output

__all__ = ["LocalStore"]

_log = logging.getLogger(__name__)

# O_NONBLOCK: opening a named pipe in place of a commit must fail, not block.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK}
# Names that no log can reference: with control characters, or not UTF-8.
_UNLISTED = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100
_SYNC_FILE_RANGE_WRITE = 2


class LocalStore:
    """A `Store` over a local directory.

    Symbolic links are followed if their target is inside the root. Writes are staged next to their
    target as `.<random>.tmp`, flushed to disk, and then linked or renamed into place.

    >>> store = LocalStore("/data/trips/")
    >>> store.root
    '/data/trips'
    """

    native_files: ClassVar[bool] = True

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(os.fspath(root))
        self._real_directory = lru_cache(tuning.DIRECTORY_CACHE)(self._resolve_directory)

    @property
    def root(self) -> str:
        """The directory, as an absolute path."""
        return self._root

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and other.root == self._root

    def __hash__(self) -> int:
        return hash(self._root)

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return (LocalStore, (self._root,))

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the files directly in `directory`, sorted; calls `stat` page by page."""
        directory = validate_directory(directory)
        try:
            with os.scandir(self._directory(directory)) as entries:
                names = {
                    entry.name: entry
                    for entry in entries
                    if (after is None or entry.name > after) and not _UNLISTED.search(entry.name)
                }
        except (ObjectNotFoundError, *_ABSENT):
            return
        except OSError as error:
            raise from_os_error(error, self._full(directory)) from error
        ordered = sorted(names)
        for start in range(0, len(ordered), tuning.LISTING_PAGE):
            page = [names[name] for name in ordered[start : start + tuning.LISTING_PAGE]]
            yield _listing_page(directory, page)

    def list_level(self, directory: str) -> Level:
        """Return the directories and files directly in `directory`."""
        names = [path[:-1] for path in self._entries(directory) if path.endswith("/")]
        return names, list(self.list_from(directory))

    def list_tree(self, *, after: str = "", within: str = "") -> Iterator[pa.RecordBatch]:
        """Yield all files, sorted by path; links to directories are not followed."""
        page: list[tuple[str, os.DirEntry[str]]] = []
        for path, entry in self._walk(within, after):
            page.append((path, entry))
            if len(page) == tuning.LISTING_PAGE:
                yield _entries_page(page)
                page = []
        if page:
            yield _entries_page(page)

    def _walk(self, directory: str, after: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield files in the order of their paths, so that `a-b` precedes `a/b`."""
        found = self._entries(directory)
        for path in sorted(found):
            if path.endswith("/"):
                if path > after or after.startswith(path):
                    yield from self._walk(path[:-1], after)
            elif path > after:
                yield path, found[path]

    def _entries(self, directory: str) -> dict[str, os.DirEntry[str]]:
        """Return what a directory has, by path; that of a directory ends with a slash."""
        found = {}
        try:
            with os.scandir(self._directory(directory)) as entries:
                for entry in entries:
                    if not _UNLISTED.search(entry.name):
                        end = "/" if entry.is_dir(follow_symlinks=False) else ""
                        found[join_path(directory, entry.name) + end] = entry
        except (ObjectNotFoundError, *_ABSENT):
            return {}
        except OSError as error:
            raise from_os_error(error, self._full(directory)) from error
        return found

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of a file."""
        with self._opened(path) as (_, info):
            return ObjectMeta(path=path, size=info.st_size, modified_ms=info.st_mtime_ns // 10**6)

    def read(self, path: str) -> Buffer:
        """Read a whole file."""
        with (
            self._opened(path) as (descriptor, _),
            open(descriptor, "rb", 0, closefd=False) as file,
        ):
            return file.read()

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read the `(start, end)` ranges of a file, in that order."""
        with self._opened(path) as (descriptor, info):
            return [_read_range(path, descriptor, info.st_size, span) for span in ranges]

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads; not memory-mapped, because mapped pages count as our memory."""
        del size  # not needed for a local file
        with self._opened(path):
            return pa.OSFile(self._real_path(path), "r")

    def local_path(self, path: str) -> str:
        """Return the file's real path, which is inside the root."""
        return self._real_path(path)

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write atomically and durably: data and directory entry are on disk on return."""
        parent, _, name = validate_path(path).rpartition("/")
        try:
            directory = self._ensure_directory(parent)
            if not overwrite:
                _require_absent(f"{directory}/{name}")  # saves staging; the link is what decides
            staged = f"{directory}/.{os.urandom(16).hex()}.tmp"
            try:
                _write_staged(staged, data)
                if overwrite:
                    os.replace(staged, f"{directory}/{name}")
                else:
                    failpoint("commit-staged")
                    _publish(staged, f"{directory}/{name}")
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(staged)
            _sync_published(directory, path)
        except FileExistsError as error:
            raise ObjectExistsError(path, "the file exists already") from error
        except StoreError:
            raise
        except OSError as error:
            raise from_os_error(error, self._full(path)) from error

    def open_output(self, path: str) -> Output:
        """Open a new file, staged next to its target until it is published."""
        parent, _, name = validate_path(path).rpartition("/")
        try:
            return _StagedFile(self._ensure_directory(parent), name, self._full(path))
        except OSError as error:
            raise from_os_error(error, self._full(path)) from error

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files; a missing one is not an error."""
        for path in paths:
            parent, _, name = validate_path(path).rpartition("/")
            try:
                os.unlink(f"{self._directory(parent)}/{name}")
            except (ObjectNotFoundError, *_ABSENT):
                continue
            except StoreError:
                raise
            except OSError as error:
                raise from_os_error(error, self._full(path)) from error

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """Open a regular file inside the root for a `with` block."""
        descriptor = -1
        try:
            descriptor = self._open(path)
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise FileNotFoundError(path)  # directories, pipes and devices are not objects
            yield descriptor, info
        except _ABSENT as error:
            raise ObjectNotFoundError(path, f"no such file in {self._root}") from error
        except StoreError:
            raise
        except OSError as error:
            raise from_os_error(error, self._full(path)) from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _open(self, path: str) -> int:
        parent, _, name = validate_path(path).rpartition("/")
        try:
            return os.open(f"{self._directory(parent)}/{name}", _READ)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        return os.open(self._resolve_link(path), _READ)

    def _real_path(self, path: str) -> str:
        parent, _, name = validate_path(path).rpartition("/")
        real = f"{self._directory(parent)}/{name}"
        return self._resolve_link(path) if os.path.islink(real) else real

    def _resolve_link(self, path: str) -> str:
        """Return the target of a link, which must be inside the root."""
        real = os.path.realpath(f"{self._root}/{path}")
        self._require_inside(real, path)
        return real

    def check_writable(self, directory: str) -> None:
        """Refuse a directory in which files cannot be created, before any file is written.

        Raises:
            StoreAccessError: The directory, or the nearest parent that exists, is not writable.
        """
        full = self._full(directory)
        while not os.path.exists(full) and (parent := os.path.dirname(full)) != full:
            full = parent
        if not os.access(full, os.W_OK | os.X_OK):
            raise from_os_error(PermissionError(errno.EACCES, ""), full)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _directory(self, directory: str) -> str:
        """Return the real path of a directory inside the root, cached."""
        return self._real_directory(directory)

    def _resolve_directory(self, directory: str) -> str:
        real = os.path.realpath(self._full(directory))
        self._require_inside(real, directory)
        if not os.path.isdir(real):  # exceptions are not cached: it may be created later
            raise ObjectNotFoundError(directory or self._root, "no such directory")
        return real

    def _require_inside(self, real: str, path: str) -> None:
        root = os.path.realpath(self._root)
        if real != root and not real.startswith(root.rstrip("/") + "/"):
            raise StoreAccessError(path, f"a symbolic link points outside {self._root}")

    def _ensure_directory(self, directory: str) -> str:
        """Return the real path of a directory; creates it durably if it is missing."""
        with contextlib.suppress(ObjectNotFoundError):
            if os.path.isdir(real := self._directory(directory)):
                return real
        self._real_directory.cache_clear()  # the directory was removed after it was cached
        full = self._full(directory)
        self._require_inside(os.path.realpath(full), directory)
        missing = []
        while not os.path.isdir(full):
            missing.append(full)
            full = os.path.dirname(full)
        for parent in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent)
            _sync_directory(os.path.dirname(parent))
        return self._directory(directory)


class _WritebackFile(pa.OSFile):  # type: ignore[misc]  # pyarrow has no types
    """A file whose writeback starts while it is written, which shortens the final fsync.

    Only for writes from Python; Arrow's own writers bypass this class.
    """

    _unflushed = 0

    def write(self, data: Buffer) -> int:
        """Write bytes, and start writeback after enough of them; never blocks on the disk."""
        written: int = super().write(data)
        self._unflushed += written
        if self._unflushed >= tuning.WRITEBACK_BYTES:
            self._unflushed = 0
            _start_writeback(self.fileno())
        return written


class _StagedFile:
    """A file under a temporary name until it is published."""

    def __init__(self, directory: str, name: str, path: str) -> None:
        self._directory = directory
        self._name = name
        self._path = path
        self._staged = f"{directory}/.{os.urandom(16).hex()}.tmp"
        self.file = _WritebackFile(self._staged, "w")

    def publish(self) -> None:
        """Give the file its name; data and directory entry are on disk on return.

        Linked first and flushed second: the fsync of the file also writes its directory entry,
        which makes the fsync of the directory almost free. If an fsync fails, the file is removed:
        no reader references an output before it is published.
        """
        target = f"{self._directory}/{self._name}"
        is_linked = False
        try:
            self.file.close()
            _publish(self._staged, target)
            is_linked = True
            self.discard()
            _sync_file(target)
            _sync_directory(self._directory)
        except OSError as error:
            self.discard()
            if is_linked:
                with contextlib.suppress(OSError):
                    os.unlink(target)
            if isinstance(error, FileExistsError):
                raise ObjectExistsError(self._path, "the file exists already") from error
            if isinstance(error, StoreError):
                raise
            raise from_os_error(error, self._path) from error

    def discard(self) -> None:
        """Delete the staged file; never fails, because it runs while errors are handled."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._staged)


def _listing_page(directory: str, entries: Sequence[os.DirEntry[str]]) -> pa.RecordBatch:
    return _entries_page([(join_path(directory, entry.name), entry) for entry in entries])


def _entries_page(entries: Sequence[tuple[str, os.DirEntry[str]]]) -> pa.RecordBatch:
    paths, sizes, times = [], [], []
    for path, entry in entries:
        try:
            info = entry.stat()
        except (FileNotFoundError, NotADirectoryError, OSError):
            continue  # deleted meanwhile, or a dangling link: not an object
        if stat.S_ISREG(info.st_mode):
            paths.append(path)
            sizes.append(info.st_size)
            times.append(info.st_mtime_ns // 10**6)
    return listing_batch(paths, sizes, times)


def _read_range(path: str, descriptor: int, size: int, span: tuple[int, int]) -> bytes:
    start, end = span
    if not 0 <= start <= end <= size:
        raise StoreError(path, f"range {start}-{end} exceeds the {size} bytes")
    parts: list[bytes] = []
    while start < end:
        part = os.pread(descriptor, end - start, start)
        if not part:
            raise TransientStoreError(path, "the file was truncated during the read")
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _write_staged(staged: str, data: Buffer) -> None:
    descriptor = os.open(staged, _CREATE, 0o666)
    try:
        remaining = memoryview(data).cast("B")
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _start_writeback(descriptor: int) -> None:
    """Start writing a file to disk; a hint, so failures are ignored."""
    sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if sync_file_range is not None:
        whole_file = ctypes.c_int64(0)
        sync_file_range(descriptor, whole_file, whole_file, _SYNC_FILE_RANGE_WRITE)


def _require_absent(target: str) -> None:
    if os.path.lexists(target):
        raise FileExistsError(target)


def _publish(staged: str, target: str) -> None:
    """Link a staged file to its name if the name is free; one of several writers wins."""
    try:
        os.link(staged, target)
    except OSError as error:
        # Over NFS the reply to a successful link may be lost; the link count shows it.
        if os.stat(staged).st_nlink == 2:
            return
        if error.errno not in _NO_LINKS:
            raise
        _log.debug("no hard links at %s: using renameat2", target)
        _rename_noreplace(staged, target)


def _rename_noreplace(staged: str, target: str) -> None:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise StoreError(target, "this file system supports neither hard links nor renameat2")
    if rename(_AT_FDCWD, os.fsencode(staged), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def _sync_published(directory: str, path: str) -> None:
    """Flush a new directory entry to disk; the file is visible already.

    Raises:
        TransientStoreError: The entry may not be on disk; a retry writes it, or finds the file.
    """
    try:
        _sync_directory(directory)
    except OSError as error:
        raise TransientStoreError(path, f"written, but not flushed to disk: {error}") from error


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot sync a directory
            raise
    finally:
        os.close(descriptor)
