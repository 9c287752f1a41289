"""Programs that need the reference connector: a test runs one, and gets what it tells.

A JVM takes JARs only when it starts, so a session with the connector has a process of its own: a
module that ends in `tell(...)` and is run by `told_by(...)`. What it tells goes over standard output as
one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

from tests.spark.jars import JarsMissingError, delta_conf, delta_jars

__all__ = ["QUICK", "tell", "told_by"]

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""The reference connector would use 50 tasks to replay a log of five lines."""

_ROOT = Path(__file__).parents[2]
_MARK = "FOUND "


def told_by(program, place, *arguments):
    """Run a program of this test suite, and return what it tells; skip where there are no JARs.

    Args:
        program: The name of its module.
        place: A directory for its tables.
        arguments: What else its report wants to know, as text.
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
    told = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    assert told, done.stdout + done.stderr[-5000:]
    return json.loads(told[0].removeprefix(_MARK))


def tell(report, conf=QUICK):
    """Start a session with the JARs, and tell what `report(spark, place, *arguments)` returns."""
    from lazydelta.spark import local_session

    warnings.simplefilter("ignore")
    spark = local_session(cores=2, conf=delta_conf(delta_jars()) | conf)
    place, *arguments = sys.argv[1:]
    sys.stdout.write(_MARK + json.dumps(report(spark, Path(place), *arguments)) + "\n")
    spark.stop()
