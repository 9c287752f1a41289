"""Typed errors in Spark's Python workers: the driver receives one line instead of a traceback.

Spark formats an exception that leaves a worker, then ends the worker. `SPARK_HIDE_TRACEBACK` is
Spark's own switch for the format, so setting it at that moment affects this one error only.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lazydelta.errors import DeltaError, TaskMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["one_line_errors", "reports_typed_errors"]

P = ParamSpec("P")
T = TypeVar("T")

_RUNTIME, _WORKER = "SPARK_PYTHON_RUNTIME", "PYTHON_WORKER"
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Let Spark report a typed error raised inside as `<class>: <message>`.

    Other exceptions are faults of this package, and keep their traceback. Outside of a Python
    worker of Spark nothing changes.
    """
    try:
        yield
    except DeltaError:
        _hide_traceback()
        raise
    except MemoryError as error:
        if not _hide_traceback():
            raise
        raise TaskMemoryError(str(error)) from None


def _hide_traceback() -> bool:
    """Hide the traceback of this error in a worker; return whether this is one."""
    if os.environ.get(_RUNTIME) != _WORKER:
        return False
    os.environ[_HIDE_TRACEBACK] = "1"
    return True


def reports_typed_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that Spark calls in a worker; see `one_line_errors`."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        with one_line_errors():
            return function(*args, **kwargs)

    return wrapper
