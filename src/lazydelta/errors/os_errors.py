"""Operating system errors as typed errors that name the file and the cure."""

from __future__ import annotations

import errno
import os

from lazydelta.errors.callers import StoreAccessError, StoreError, TransientStoreError

__all__ = ["from_os_error"]

_TRANSIENT = frozenset({errno.EINTR, errno.EAGAIN, errno.ETIMEDOUT, errno.ESTALE, errno.EIO})
_ACCESS = {
    errno.EACCES: "check the permissions of the file and its directory",
    errno.EPERM: "check the permissions of the file and its directory",
    errno.EROFS: "mount the file system for writing, or choose another place",
}
_CURES = {
    errno.ENOSPC: "free some disk space, and write again",
    errno.EDQUOT: "free some disk space or raise the quota, and write again",
    errno.EFBIG: "write smaller files (target_file_bytes)",
    errno.ENAMETOOLONG: "shorten the path of the table, or the values it is partitioned by",
    errno.EMFILE: "raise the limit of open files, or lower WriteOptions(open_files=...)",
    errno.ENFILE: "raise the limit of open files, or lower WriteOptions(open_files=...)",
}


def from_os_error(error: OSError, path: str) -> StoreError:
    """Return the typed error for a failed system call.

    Args:
        error: The error of Python or pyarrow.
        path: The full path of the file, so that the message names the table.
    """
    code = error.errno
    reason = os.strerror(code) if code else str(error)
    if code in _ACCESS or isinstance(error, PermissionError):
        return StoreAccessError(path, f"{reason}: {_ACCESS.get(code or 0, _ACCESS[errno.EACCES])}")
    if code in _TRANSIENT:
        return TransientStoreError(path, reason)
    return StoreError(path, f"{reason}: {_CURES[code]}" if code in _CURES else reason)
