"""Blocks of immutable objects in a local directory, shared by processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import zlib
from pathlib import Path

import pyarrow as pa

from lazydelta.store import tuning

__all__ = ["DiskCache"]

_MAGIC = b"LDC1"
_HEADER_BYTES = len(_MAGIC) + 4


class DiskCache:
    """A bounded cache in a directory; any number of processes may use it at once.

    A block is a file named by the hash of its key. It is written under a temporary name and
    renamed, so that no reader sees a part of it. A block whose checksum does not match is ignored.
    Above the limit, the least recently used blocks are deleted. No error of the directory fails a
    read: the cache is then empty.

    Args:
        directory: Created if it is missing, for this user only.
        max_bytes: Maximum size of all blocks.
    """

    def __init__(self, directory: str, max_bytes: int) -> None:
        self._directory = Path(directory)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._written = max_bytes  # the first write measures what other processes left

    def __reduce__(self) -> tuple[type[DiskCache], tuple[str, int]]:
        """Other processes use the same directory."""
        return DiskCache, (str(self._directory), self._max_bytes)

    def get(self, *key: object) -> pa.Buffer | None:
        """Return a block, or None."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            data = path.read_bytes()
            os.utime(path)  # the time of its last use
            checksum = int.from_bytes(data[len(_MAGIC) : _HEADER_BYTES], "little")
            content = memoryview(data)[_HEADER_BYTES:]
            is_whole = len(data) >= _HEADER_BYTES and data.startswith(_MAGIC)
            if is_whole and zlib.crc32(content) == checksum:
                return pa.py_buffer(content)
            path.unlink(missing_ok=True)
        return None

    def put(self, data: pa.Buffer, *key: object) -> None:
        """Add a block; one that would take too large a part of the cache is left out."""
        size = data.size + _HEADER_BYTES
        if size > self._max_bytes // tuning.DISK_CACHE_BLOCKS:
            return
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._directory, delete=False) as file:
                try:
                    file.write(_MAGIC + zlib.crc32(data).to_bytes(4, "little"))
                    file.write(data)
                    file.close()
                    Path(file.name).replace(self._path(key))
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
            self._evict(size)

    def _path(self, key: tuple[object, ...]) -> Path:
        name = hashlib.sha256("\0".join(map(str, key)).encode()).hexdigest()
        return self._directory / name

    def _evict(self, size: int) -> None:
        """Delete the least recently used blocks; measured once in a while, for it lists all."""
        with self._lock:
            self._written += size
            if self._written < self._max_bytes // tuning.DISK_CACHE_BLOCKS:
                return
            self._written = 0
        blocks = []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    blocks.append((status.st_mtime_ns, status.st_size, entry.path))
        held = sum(length for _, length, _ in blocks)
        for _, length, path in sorted(blocks):
            if held <= self._max_bytes:
                break
            Path(path).unlink(missing_ok=True)
            held -= length
