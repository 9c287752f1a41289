"""Programs that need the reference connector: a test runs one in a process and gets its report.

A JVM takes JARs only when it starts, so a session with the connector needs its own process: a module
that ends in `print_report(...)` and is run by `run_program(...)`. The report is one line of JSON on
standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

from tests.spark.jars import JarsMissingError, delta_conf, delta_jars

__all__ = ["QUICK", "print_report", "run_program"]

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""The reference connector would use 50 tasks to replay a log of five lines."""

_ROOT = Path(__file__).parents[2]
_MARK = "FOUND "


def run_program(program, place, *arguments):
    """Run a program of this test suite and return its report; skip where there are no JARs.

    Args:
        program: The name of its module.
        place: A directory for its tables.
        arguments: Further arguments of its report, as strings.
    """
    import pytest

    pytest.importorskip("pyspark", reason="pip install 'lazydelta[spark]'")
    try:
        delta_jars()
    except JarsMissingError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", program, str(place), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)
    if "JavaNotFoundError" in done.stderr:
        pytest.skip("Spark needs a Java")
    reports = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    assert reports, done.stdout + done.stderr[-5000:]
    return json.loads(reports[0].removeprefix(_MARK))


def print_report(report, conf=QUICK):
    """Start a session with the JARs, and print what `report(spark, place, *arguments)` returns."""
    from lazydelta.spark import local_session

    warnings.simplefilter("ignore")
    spark = local_session(cores=2, conf=delta_conf(delta_jars()) | conf)
    place, *arguments = sys.argv[1:]
    sys.stdout.write(_MARK + json.dumps(report(spark, Path(place), *arguments)) + "\n")
    spark.stop()
