"""Table functions in SQL: `SELECT * FROM delta_history('s3://lake/trips')`.

Each is one task in a Python worker of an executor, which opens the table itself. PySpark lets a
function that returns Arrow batches have a fixed schema only, so `delta_changes`, whose columns are
those of the table, returns rows one by one: `lazydelta.spark.changes` is the way for many, and
beyond `tuning.FUNCTION_ROWS` the only one.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import udtf

from lazydelta.changes import CHANGE_FIELDS
from lazydelta.config import Config
from lazydelta.errors import ArgumentError
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import read_schema
from lazydelta.spark.package_shipping import packed
from lazydelta.spark.result_frames import DETAIL, HISTORY, detail_rows, history_rows
from lazydelta.spark.serialized_snapshot import TableLocation
from lazydelta.spark.spark_releases import AnalyzeResult
from lazydelta.spark.table_names import split_version
from lazydelta.spark.worker_errors import one_line_errors, reports_typed_errors
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lazydelta.spark.spark_releases import AnalyzeArgument

__all__ = ["register_functions"]

_FILES = (
    "path string, size bigint, modificationTime timestamp_ltz, partitionValues map<string,string>, "
    "numRecords bigint, hasDeletionVector boolean"
)
_TOO_MANY = "returns at most {:,} rows, in one task: use lazydelta.spark.changes for more"
_INTEGERS = ("limit", "start", "end")
_HEALTH = "check string, severity string, message string, cure string, cost string"


def register_functions(spark: SparkSession, options_file: str | None) -> None:
    """Make the table functions known to a session.

    Args:
        spark: The session.
        options_file: The JSON file with storage options, on the machines that open tables.
    """
    for name, (base, schema) in _FUNCTIONS.items():
        made: Any = udtf(_by_value(base, options_file, analyzed=schema is None), returnType=schema)
        spark.udtf.register(name, made)


def _by_value(base: type[_Function], options_file: str | None, *, analyzed: bool) -> type[Any]:
    """Return a function that Spark pickles by value: executors without this package say so."""
    build = packed(base(options_file))

    class Function:
        def eval(self, *given: Any, **named: Any) -> Iterator[tuple[Any, ...]]:
            function = build()
            function.check_call(*given, **named)
            yield from function.eval(*given, **named)

    class AnalyzedFunction(Function):
        @staticmethod
        def analyze(*given: AnalyzeArgument, **named: AnalyzeArgument) -> AnalyzeResult:
            function = build()
            function.check_call(
                *(one.value for one in given), **{name: one.value for name, one in named.items()}
            )
            return function.analyze(*given, **named)

    return AnalyzedFunction if analyzed else Function


class _Function:
    """A function of a table."""

    eval: Callable[..., Iterator[tuple[Any, ...]]]

    def __init__(self, options_file: str | None) -> None:
        self._options_file = options_file

    @reports_typed_errors
    def check_call(self, *given: Any, **named: Any) -> None:
        """Refuse arguments that the function does not take.

        Raises:
            ArgumentError: An argument is missing, unknown, or of another type.
        """
        signature = inspect.signature(self.eval)
        usage = f"the function takes ({', '.join(signature.parameters)})"
        try:
            bound = signature.bind(*given, **named)
        except TypeError as error:
            raise ArgumentError(usage, f"and was called otherwise: {error}") from None
        for name, value in bound.arguments.items():
            kind, text = (int, "an integer") if name in _INTEGERS else (str, "a string")
            if not isinstance(value, kind) and (value is not None or name == "path"):
                raise ArgumentError(name, f"must be {text}, not {value!r}: {usage}")

    def _table(self, path: str) -> Table:
        config = Config.from_env()
        location = TableLocation(root=path, config=config, options_file=self._options_file)
        return Table(location.open(), config)


class _History(_Function):
    def eval(self, path: str, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        with one_line_errors():
            yield from history_rows(self._table(path).history(limit))


class _Detail(_Function):
    def eval(self, path: str) -> Iterator[tuple[Any, ...]]:
        with one_line_errors():
            yield from detail_rows(self._table(path))


class _Files(_Function):
    def eval(self, path: str, where: str | None = None) -> Iterator[tuple[Any, ...]]:
        address = split_version(path)
        with one_line_errors():
            snapshot = self._table(address.url).snapshot(address.version)
            for file in snapshot.scan(where).files():
                values = dict(file.raw_partition_values)
                has_vector = file.deletion_vector is not None
                yield (
                    file.uri, file.size, file.modification_time, values, file.num_records,
                    has_vector,
                )  # fmt: skip


class _Health(_Function):
    def eval(self, path: str) -> Iterator[tuple[Any, ...]]:
        with one_line_errors():
            for one in self._table(path).health().findings:
                yield one.check, one.severity, one.message, one.cure, one.cost


class _Changes(_Function):
    """`delta_changes(path, from, to)`: its columns are those of the table, and the feed's three."""

    def eval(self, path: str, start: int = 0, end: int | None = None) -> Iterator[tuple[Any, ...]]:
        with one_line_errors():
            feed = self._table(path).changes(starting_version=start, ending_version=end)
            with feed.to_reader() as rows:
                for number, row in enumerate(_rows_of(rows)):
                    if number == tuning.FUNCTION_ROWS:
                        raise ArgumentError("delta_changes", _TOO_MANY.format(number))
                    yield row

    @reports_typed_errors
    def analyze(
        self,
        path: AnalyzeArgument,
        start: AnalyzeArgument | None = None,  # noqa: ARG002 - of the call
        end: AnalyzeArgument | None = None,
    ) -> AnalyzeResult:
        """Return the columns, which Spark requests when it analyzes a query."""
        snapshot = self._table(str(path.value)).snapshot(None if end is None else end.value)
        return AnalyzeResult(read_schema(snapshot, None, CHANGE_FIELDS))


def _rows_of(batches: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        columns = [column.to_pylist(maps_as_pydicts="strict") for column in batch.columns]
        yield from zip(*columns, strict=True)


_FUNCTIONS: dict[str, tuple[type[_Function], str | None]] = {
    "delta_history": (_History, HISTORY),
    "delta_detail": (_Detail, DETAIL),
    "delta_files": (_Files, _FILES),
    "delta_health": (_Health, _HEALTH),
    "delta_changes": (_Changes, None),
}
