"""This package on executors: tasks that say what is missing there, and `ship`, which sends it.

Executors unpickle a task before they run it. Without this package that fails with a traceback of
Spark's worker, so a task is sent as bytes beside a function that Spark pickles by value.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from lazydelta.errors import ExecutorPackageError
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.spark.spark_releases import add_package, collect_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["Packed", "packed", "ship"]

_NEEDED = ("numpy", "orjson", "obstore", "pyroaring", "arro3.core", "arro3.io", "click")
_CHECKS = 4
"""Tasks that look for the package, so that more than one executor may run one."""


def package_version() -> str:
    """Return the version of this package."""
    return str(getattr(sys.modules[__name__.partition(".")[0]], "__version__", "unknown"))


def packed(value: Any) -> Callable[[], Any]:
    """Return a function that returns a value, and that any executor can unpickle.

    It raises an error of one line where this package is missing, or has another version.
    """
    dumps: Any = cloudpickle.dumps
    data: bytes = dumps(value)
    version = package_version()

    def unpack() -> Any:  # a nested function is pickled by value: it may use nothing of this module
        import os
        import pickle
        import pkgutil
        import sys

        cure = "Call lazydelta.spark.ship(spark)"
        try:
            found = pkgutil.resolve_name("lazydelta:__version__")
            problem = f"lazydelta {found} on this executor, {version} on the driver"
            if found == version:
                return pickle.loads(data)  # noqa: S301 - our own task
        except ModuleNotFoundError as error:
            name = str(error.name).partition(".")[0]
            problem = f"{name} is not installed for {sys.executable} on this executor"
            if name != "lazydelta":  # a dependency, which `ship` does not send
                cure = "Run `pip install 'lazydelta[spark]'` there"
        except (ImportError, MemoryError) as error:  # a library that cannot be loaded
            problem = f"lazydelta cannot be imported by {sys.executable} on this executor: {error}"
            cure = "Give its Python more memory (spark.executor.pyspark.memory)"
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        sys.tracebacklimit = 0  # for Spark 3.5; see `spark_releases.hide_traceback`
        raise RuntimeError(f"{problem}. {cure}, or set PYSPARK_PYTHON to a Python that has it.")

    return unpack


class Packed:
    """Base of what Spark's planning process sends to executors: they unpack it as a task.

    It is pickled with its attributes.
    """

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        """Return a function that any executor can unpickle."""
        unpack = packed((type(self), self.__dict__))

        def rebuild() -> Any:
            kind, attributes = unpack()
            made = kind.__new__(kind)
            made.__dict__.update(attributes)
            return made

        return rebuild, ()


@raises_spark_errors
def ship(spark: SparkSession) -> None:
    """Send this package to the executors of a session, and check that they can import it.

    A zip of the package's Python code is added to the session (`addArtifacts`). Its dependencies
    are compiled, so executors need them installed: `pip install 'lazydelta[spark]'` there is the
    alternative, and installs both.

    Args:
        spark: A session, classic or Spark Connect.

    Raises:
        ExecutorPackageError: An executor lacks a dependency, or has another version of this
            package before the one that was sent.
    """
    package = Path(__file__).parents[1]
    # Spark 3.5 serves the file from here to executors that start later.
    directory = tempfile.mkdtemp(prefix="lazydelta-ship-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = Path(directory, f"lazydelta-{package_version()}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in sorted(package.rglob("*.py")):
            zipped.write(file, file.relative_to(package.parent))
    add_package(spark, str(path))
    _check(spark)


def _check(spark: SparkSession) -> None:
    rows = spark.range(0, _CHECKS, 1, _CHECKS)
    found = collect_arrow(rows.mapInArrow(_prober(_NEEDED), "host string, problem string"))
    problems = {
        f"{host}: {problem}"
        for host, problem in zip(*(column.to_pylist() for column in found.columns), strict=True)
        if problem != package_version()
    }
    if problems:
        raise ExecutorPackageError(tuple(sorted(problems)))


def _prober(needed: tuple[str, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
    """Return a task that yields the version of this package on an executor, or what it lacks."""

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        import pkgutil
        import platform
        from importlib.util import find_spec

        import pyarrow as pa

        for _ in batches:
            try:
                found = [f"{name} is not installed" for name in needed if find_spec(name) is None]
                found = found or [str(pkgutil.resolve_name("lazydelta:__version__"))]
            except ImportError as error:
                found = [str(error)]
            row = {"host": [platform.node()], "problem": ["; ".join(found)]}
            yield pa.RecordBatch.from_pydict(row)

    return probe
