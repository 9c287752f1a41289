"""Errors that code written for Delta Spark catches, with `except AnalysisException` for example.

The public functions of this package raise lazydelta's errors. Those for which Delta Spark raises
one of Spark's exceptions are an instance of that too, with the error condition of Delta Spark.
"""

from __future__ import annotations

import re
from functools import cache, wraps
from inspect import isfunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyspark.errors import (
    AnalysisException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)

from lazydelta.errors import (
    AlterationError,
    ColumnNotFoundError,
    DeltaError,
    ExecutorPackageError,
    QueryError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    TimestampNotFoundError,
    UnsupportedFeatureError,
    UnsupportedOperationError,
    VersionNotFoundError,
)
from lazydelta.spark.spark_releases import error_condition, init_spark_error

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["raises_spark_errors", "with_spark_errors"]

P = ParamSpec("P")
T = TypeVar("T")

_SPARK: dict[type[DeltaError], tuple[type[PySparkException], str | None]] = {
    TableNotFoundError: (AnalysisException, "DELTA_TABLE_NOT_FOUND"),
    TableExistsError: (AnalysisException, "DELTA_TABLE_ALREADY_EXISTS"),
    VersionNotFoundError: (AnalysisException, "DELTA_VERSION_NOT_FOUND"),
    TimestampNotFoundError: (AnalysisException, None),
    ColumnNotFoundError: (AnalysisException, "DELTA_COLUMN_NOT_FOUND"),
    SchemaMismatchError: (AnalysisException, "DELTA_SCHEMA_MISMATCH"),
    AlterationError: (AnalysisException, None),
    QueryError: (ParseException, None),
    UnsupportedFeatureError: (PySparkException, None),
    UnsupportedOperationError: (UnsupportedOperationException, None),
}
"""Spark's exception, and Delta's error condition where there is one for all causes."""
_FEATURES = {"read": "FOR_READ", "write": "FOR_WRITE", "upgrade": "IN_CONFIG"}
_NO_ARROW = re.compile(r"No module named '(pyarrow|pandas|numpy)\b|(Py[Aa]rrow) >= \S+ must be")
"""What Spark's own worker reports before it unpickles a task of this package."""


def raises_spark_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that its errors are Spark's exceptions too.

    Jobs of the function that fail because executors have no pyarrow raise `ExecutorPackageError`.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except PySparkException as error:
            missing = None if isinstance(error, DeltaError) else _NO_ARROW.search(str(error))
            if missing is None:
                raise
            name = (missing[1] or missing[2]).lower()
            raise ExecutorPackageError((f"{name} is not installed for their Python",)) from None
        except tuple(_SPARK) as error:
            raise _both(error).with_traceback(error.__traceback__) from error.__cause__

    return wrapper


def with_spark_errors(kind: type[T]) -> type[T]:
    """Decorate a class: `raises_spark_errors` for its public methods."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod | staticmethod):
            wrapped: Any = type(member)(raises_spark_errors(member.__func__))
        elif isfunction(member):
            wrapped = raises_spark_errors(member)
        else:
            continue
        setattr(kind, name, wrapped)
    return kind


def _both(error: DeltaError) -> DeltaError:
    kind = next(one for one in type(error).__mro__ if one in _SPARK)
    _, condition = _SPARK[kind]
    if isinstance(error, UnsupportedFeatureError):
        condition = f"DELTA_UNSUPPORTED_FEATURES_{_FEATURES[error.access]}"
    of: Any = type(error)
    both = _kind_of_both(of)
    made: Any = both.__new__(both)
    vars(made).update(vars(error))
    init_spark_error(made, str(error), condition)
    return made


@cache
def _kind_of_both(kind: Any) -> type[DeltaError]:
    spark = next(_SPARK[one][0] for one in kind.__mro__ if one in _SPARK)

    def shown(error: Any) -> str:
        """Return the message with the error condition, as Spark does."""
        condition = error_condition(error)
        message = kind.__str__(error)
        return message if condition is None else f"[{condition}] {message}"

    def reduced(error: DeltaError) -> Any:
        """Pickle as the error of lazydelta: this class has no name to import it by."""
        return (kind, kind.__reduce__(error)[1])

    members = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "__qualname__": kind.__qualname__,
        "__str__": shown,
        "__reduce__": reduced,
    }
    return type(kind.__name__, (kind, spark), members)
