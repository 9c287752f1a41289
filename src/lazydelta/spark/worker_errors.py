"""Typed errors in Spark's Python workers: the driver receives one line instead of a traceback.

Spark formats an exception that leaves a worker, then ends the worker. So a switch of the format
that is set at that moment affects this one error only.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lazydelta.errors import DeltaError, TaskMemoryError
from lazydelta.spark.spark_releases import hide_traceback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["one_line_errors", "reports_typed_errors"]

P = ParamSpec("P")
T = TypeVar("T")

_SET_IN_WORKERS = "SPARK_BUFFER_SIZE"  # SPARK_PYTHON_RUNTIME says it, but from Spark 4.2 on only


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Let Spark report a typed error raised inside as `<class>: <message>`.

    Other exceptions are faults of this package, and keep their traceback. Outside of a Python
    worker of Spark nothing changes.
    """
    try:
        yield
    except DeltaError as error:
        if _SET_IN_WORKERS in os.environ:
            hide_traceback(error)
        raise
    except MemoryError as error:
        if _SET_IN_WORKERS not in os.environ:
            raise
        found = TaskMemoryError(str(error))
        hide_traceback(found)
        raise found from None


def reports_typed_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that Spark calls in a worker; see `one_line_errors`."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        with one_line_errors():
            return function(*args, **kwargs)

    return wrapper
