"""Errors as the status codes of the C library: the negative codes of gRPC."""

from __future__ import annotations

from lazydelta import errors

__all__ = ["status_of"]

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.PathNotAllowedError, -7),
    (errors.StoreAccessError, -7),
    (errors.LogCorruptError, -15),
    (errors.LogGapError, -15),
    (errors.DataFileError, -15),
    (errors.DeletionVectorError, -15),
    (errors.VersionNotFoundError, -5),
    (errors.TimestampNotFoundError, -5),
    (FileNotFoundError, -5),
    (NotImplementedError, -12),
    (errors.StoreError, -14),
    (ValueError, -3),
    (LookupError, -3),
)


def status_of(error: BaseException) -> int:
    """Return the status code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), -13)
