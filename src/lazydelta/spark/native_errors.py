"""Damaged files under Spark's Parquet scan: a typed error of one line, as of our own reader.

PySpark reports Spark's FAILED_READ_FILE with a hundred lines of Java: as a `Py4JJavaError` in a
classic session, and with the stack of the server through Spark Connect. So this module wraps
the function with which PySpark converts errors. Errors of files that no scan of this package
reads stay as they are.
"""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.errors.exceptions import captured

from lazydelta.errors import DataFileError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["report_damaged_files"]

_FAILED = re.compile(r"\[FAILED_READ_FILE[.\w]*\] .*? reading file (?P<url>\S+?)\.?(?:\s|$)")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_MAX_CAUSES = 10
_tables: dict[str, str] = {}
"""Tables that Spark's scan reads, by their Hadoop URL."""


def report_damaged_files(url: str, table: str, *, connect: bool) -> None:
    """Raise `DataFileError` when Spark cannot read a file below a URL, from now on.

    Args:
        url: The table as Hadoop has it.
        table: The table as the error names it.
        connect: Whether this process has a Spark Connect session.
    """
    _tables[f"{url.rstrip('/')}/"] = table
    pyspark: Any = captured
    wrapped = _of_classic
    if connect:
        from pyspark.sql.connect.client import core  # only where its dependencies are installed

        pyspark, wrapped = core, _of_connect
    if not hasattr(pyspark.convert_exception, "__wrapped__"):
        pyspark.convert_exception = wrapped(pyspark.convert_exception)


def _of_classic(convert: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(convert)
    def converted(error: Any) -> Any:
        found = convert(error)
        if not isinstance(found, captured.UnknownException):
            return found
        for _ in range(_MAX_CAUSES):
            if error is None:
                break
            match, error = _FAILED.match(str(error.getMessage())), error.getCause()
            if match is not None:
                return _of_table(match, None if error is None else error.getMessage()) or found
        return found

    return converted


def _of_connect(convert: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(convert)
    def converted(*args: Any) -> Any:
        found = convert(*args)
        match = _FAILED.search(str(found))
        if match is None:
            return found
        # Known to PySpark, whether or not the session shows it.
        stack = found.getStackTrace() if hasattr(found, "getStackTrace") else None
        cause = _CAUSE.search(stack or str(found))
        return _of_table(match, None if cause is None else cause[1]) or found

    return converted


def _of_table(match: re.Match[str], cause: str | None) -> DataFileError | None:
    """Return the error of a file; None if no table of ours has it."""
    url = unquote(match["url"])
    for root, table in [*_tables.items()]:  # another thread may add one
        if url.startswith(root):
            reason = (cause or match[0]).partition("\n")[0].strip(" .")
            return DataFileError(table, url.removeprefix(root), reason)
    return None
